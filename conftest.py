"""Settings of all tests: no test writes into the user's home, or fails because the machine is busy."""

import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# The time of an example depends on the load of the machine and says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

# A shell starts background processes with SIGINT ignored, and tests that send it would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# GPU kernels can be imported only where Triton is installed.
_GPU_KERNELS = [
    f"src/penstock/{name}.py"
    for name in (
        "kernels/cuda_module",
        "kernels/disentangled_attention",
        "kernels/encoder_triton",
        "kernels/minhash_gpu",
        "kernels/minhash_triton",
        "models/encoder_weights",
        "models/packed_bert",
        "models/packed_deberta",
    )
]
collect_ignore = [] if find_spec("triton") else _GPU_KERNELS


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache: Path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
