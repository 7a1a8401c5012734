"""What the acker makes reliable: spouts, bolts, their batches, and the server that runs them."""
