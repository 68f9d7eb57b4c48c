"""Methods that spread similarity over the graph of neighbours."""
