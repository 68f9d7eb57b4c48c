"""The stages of the method, each from sparse rows to sparse rows."""
