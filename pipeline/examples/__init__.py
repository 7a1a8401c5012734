"""Example topologies, one a file."""
