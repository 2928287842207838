"""Code that runs inside a worker: the chain of stages, isolation of failing rows, transport of tasks."""
