"""Keeping a worker process to what its stages declared: threads of libraries, and memory of a shared GPU."""

from __future__ import annotations

import os

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


def set_thread_variables(threads: int) -> None:
    """Tell libraries that are not loaded yet how many threads they may use."""
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))


def let_threads_sleep() -> None:
    """Let threads that NumPy starts when it is loaded go to sleep at once: they would look for work for 0.1 seconds."""
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")


def limit_threads(threads: int) -> None:
    """Keep thread pools of libraries that are loaded already at what the worker declared."""
    import pyarrow as pa

    pa.set_cpu_count(max(1, threads))
    pa.set_io_thread_count(max(1, threads))


def limit_gpu(share: float) -> None:
    """Let this process allocate no more than its share of the one GPU it sees."""
    if not 0 < share < 1:
        return
    try:
        import torch
    except ImportError:
        return  # whatever uses the GPU here is not ours to limit
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share, 0)
