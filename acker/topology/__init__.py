"""The graph of spouts and bolts as its author writes it."""
