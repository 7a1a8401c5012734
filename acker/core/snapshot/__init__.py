"""What one snapshot of a store says: each module knows one of its tables."""
