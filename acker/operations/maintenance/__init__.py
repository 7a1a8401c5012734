"""What keeps a store small, and copies it."""
