"""What runs: workers that take tasks through a chain of stages, and executors that feed them."""
