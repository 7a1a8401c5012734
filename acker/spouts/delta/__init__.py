"""A Delta table as a spout."""
