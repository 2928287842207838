"""What holds for all tests: none writes into the home of whoever runs it, or fails because the machine is busy."""

import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes depends on who else is at work on the machine, and says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

# A shell starts what runs in the background deaf to Ctrl-C, and tests that press it would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Kernels for a GPU can be imported only where Triton is.
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
