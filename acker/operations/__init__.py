"""Operations that a scheduler or a person starts: cycles, folds, publishes, replays, maintenance."""
