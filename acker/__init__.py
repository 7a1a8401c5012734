"""The reliability core: what happened to every source message, from XORed events. Knows no topology."""
