"""The only numba: arrays in, arrays out."""
