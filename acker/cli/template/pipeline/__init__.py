"""The pipelines of this project."""
