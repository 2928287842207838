"""The Ray backend: workers are actors, outputs are in the object store, and machines may join or leave."""
