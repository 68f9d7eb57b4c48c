"""Rankings measured as the field does: protocols, what they count, and how sure one can be."""
