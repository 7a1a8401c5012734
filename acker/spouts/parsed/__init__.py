"""Texts and JSON as values of Spark's types, exactly."""
