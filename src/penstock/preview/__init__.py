"""Preview a recipe: run a sample of the input and estimate yield, speed and duration for all of it."""
