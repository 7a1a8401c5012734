"""Delta tables and columns as Spark has them."""
