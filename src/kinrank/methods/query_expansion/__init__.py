"""Methods that move the query, or the gallery, towards its neighbours."""
