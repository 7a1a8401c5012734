"""The environment of a deployment: settings, the Spark server, sessions, topologies found by name."""
