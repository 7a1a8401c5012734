"""What a scheduler or a person starts: cycles, folds, publishes, replays, maintenance."""
