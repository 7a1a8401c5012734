"""Which messages a replay by hand chooses, and what it is asked."""
