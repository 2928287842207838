"""Models on documents: encoders that run without padding, on a GPU."""
