"""Show a run to the user: progress while it works, a summary at the end."""
