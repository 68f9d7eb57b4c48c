"""The stages of a call on the machines of a Ray cluster."""
