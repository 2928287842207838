from nemo_curator import Sequential, ToBackend

pipeline = Sequential([
    cpu_operation,          # Runs on CPU
    ToBackend("cudf"),     # Moves to GPU
    gpu_operation,         # Runs on GPU
    ToBackend("pandas"),   # Moves back to CPU
    cpu_operation_2        # Runs on CPU
])
