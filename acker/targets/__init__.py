"""Targets: where the tuples of acked messages go. One target a file."""
