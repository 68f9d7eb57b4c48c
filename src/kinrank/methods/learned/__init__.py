"""Methods that use trained weights."""
