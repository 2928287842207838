import ray
ray.init(
    object_store_memory=100_000_000_000,  # 100GB object store
    _memory=200_000_000_000,              # 200GB heap
)
