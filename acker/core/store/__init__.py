"""The store's tables: their places and columns, how they are opened, and commits to them."""
