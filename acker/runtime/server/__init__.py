"""The Spark server of a deployment, and the sessions on it."""
