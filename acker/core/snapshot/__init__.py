"""Snapshots of a store: each module reads one of its tables."""
