"""The progress bar of an inline run."""

import io

import pytest
from rich.console import Console

from penstock.monitor import progress


def test_standard_output_is_not_captured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = io.StringIO()
    monkeypatch.setattr(progress, "stderr_console", lambda: Console(file=terminal, width=80, force_terminal=True))
    with progress.Progress("p", 60) as bar:
        bar.update(1, [])
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()
