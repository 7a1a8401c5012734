"""How the store's tables lie, are opened and are committed to."""
