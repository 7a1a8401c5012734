"""A folder of files as a spout."""
