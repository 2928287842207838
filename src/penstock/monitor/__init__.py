"""What a run shows of itself: progress while it works, a summary at the end."""
