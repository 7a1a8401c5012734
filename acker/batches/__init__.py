"""Batches: planned, written and logged, from wherever an earlier run left them."""
