"""What tracking costs, as ratios of runs made side by side with their results checked."""
