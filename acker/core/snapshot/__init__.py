"""Snapshots of a store, and the questions that are asked of one."""
