"""Limit a worker process to the resources of its stages: threads of libraries, and memory of a shared GPU."""

from __future__ import annotations

import os

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def set_thread_variables(threads: int) -> None:
    """Set the number of threads for libraries that are not loaded yet."""
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))


def let_threads_sleep() -> None:
    """Let the threads that NumPy starts on import sleep at once, instead of polling for work for 0.1 seconds."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")


def limit_threads(threads: int) -> None:
    """Set the number of threads of libraries that are loaded already."""
    import pyarrow as pa

    pa.set_cpu_count(max(1, threads))
    pa.set_io_thread_count(max(1, threads))


def limit_gpu(share: float) -> None:
    """Limit the memory that PyTorch allocates in this process to its share of the one visible GPU."""
    if not 0 < share < 1:
        return
    try:
        import torch
    except ImportError:
        return  # without PyTorch, there is no known way to limit what uses the GPU
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share, 0)
