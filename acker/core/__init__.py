"""The reliability core: events, the fold, the ledger. It knows no Spark, no topology and no terminal."""
