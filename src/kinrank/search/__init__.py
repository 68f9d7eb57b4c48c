"""The nearest rows of vectors: exactly, or approximately in cells; vectors as they are stored."""
