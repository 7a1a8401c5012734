"""The four kinds of components, each of which makes the rows of its own batches and writes them."""
