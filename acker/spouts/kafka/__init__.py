"""Kafka topics as a spout."""
