"""No test writes into the home of whoever runs it, or learns from what another test has left there."""

from importlib.util import find_spec
from pathlib import Path

import pytest

# Kernels for a GPU can be imported only where Triton is.
_GPU_KERNELS = ["src/penstock/kernels/minhash_gpu.py", "src/penstock/kernels/minhash_triton.py"]
collect_ignore = [] if find_spec("triton") else _GPU_KERNELS


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache: Path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
