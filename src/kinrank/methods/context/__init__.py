"""Methods that compare the neighbourhoods of rows."""
