from nemo_curator.stages.resources import Resources

# CPU-only stage
Resources(cpus=4.0)

# GPU stage with memory fraction (shares GPU with other stages)
Resources(gpu_memory_gb=16.0)

# GPU stage with dedicated GPU(s)
Resources(gpus=1.0)  # One full GPU
Resources(gpus=2.0)  # Two full GPUs

# Mixed CPU + GPU
Resources(cpus=4.0, gpu_memory_gb=16.0)
