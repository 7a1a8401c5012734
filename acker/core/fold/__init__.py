"""The acker's own work: what becomes of each root."""
