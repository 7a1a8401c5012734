"""Planned batches: what each takes in, and what a message caused."""
