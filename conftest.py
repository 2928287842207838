"""What holds for all tests: none writes into the home of whoever runs it, or fails because the machine is busy."""

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes depends on who else is at work on the machine, and says nothing about the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache: Path = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
