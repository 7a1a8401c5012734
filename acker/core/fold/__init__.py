"""The fold, which is the acker's own work: it decides the state of each root."""
