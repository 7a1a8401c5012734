"""What a deployment runs on: settings, the Spark server, sessions, topologies found by name."""
