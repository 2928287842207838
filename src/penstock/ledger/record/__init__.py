"""Record decisions in a worker: one Block per batch of documents, with the verdict of every rule."""
