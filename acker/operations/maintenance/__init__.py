"""Maintenance: steps that keep a store small, and copies of a store."""
