"""The live view of a run, rendered to a recording console with a manual clock."""

import io
import re
import sys

import pytest
from captioning_run import captioning, pool, run
from rich.cells import cell_len
from rich.console import Console

from penstock.core.snapshot import RunSnapshot
from penstock.monitor.live import LiveView


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Screen:
    """A console that records its output; ``look`` returns the lines since the last call."""

    def __init__(self, *, width: int = 120, height: int = 30, terminal: bool = True) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=width, height=height, force_terminal=terminal)

    def look(self) -> list[str]:
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())
        self.file.seek(0)
        self.file.truncate()
        return [line.rstrip() for line in text.replace("\r", "").splitlines()]


@pytest.fixture(autouse=True)
def _colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def drawn(snapshot: RunSnapshot, *, width: int = 120, height: int = 30) -> list[str]:
    screen = Screen(width=width, height=height)
    with LiveView("captions", 60, clock=Clock(), console=screen.console) as view:
        screen.look()
        view.update(snapshot)
        return screen.look()


def test_a_terminal_shows_a_headline_and_a_row_per_pool() -> None:
    assert drawn(captioning(failed=3)) == [
        "captions: bound by 'caption' on GPUs, 97 % of what this machine can do",
        "stages                     workers     done  items/s  queue      held   busy         ETA",
        "────────────────────────────────────────────────────────────────────────────────────────",
        "read                           4/4    1,240      4.0      0       0 B    5 %        done",
        "decode … clean (4 stages)    11/11   30,412     1.2k     12    1.1 GB   71 %  3 min 10 s",
        "caption                        3/4    8,400      4.0     12    1.1 GB   97 %  2 h 05 min",
        "write                          1/1    8,400      4.0      0   12.0 MB    2 %  2 h 05 min",
        "1.6 GB of the 4.0 GB budget in flight · elapsed 5 min 10 s · ETA 2 h 05 min · 3 failed",
    ]


def test_failures_are_not_mentioned_when_there_are_none() -> None:
    assert not any("failed" in line for line in drawn(captioning()))


def test_an_unknown_eta_is_a_dash_and_a_tiny_one_is_below_a_second() -> None:
    lines = drawn(run(pool("read", eta_seconds=None), pool("write", eta_seconds=0.2)))
    assert lines[3].endswith(" –")
    assert lines[4].endswith(" < 1 s")


def test_eighty_characters_show_every_column() -> None:
    heading = drawn(captioning(), width=80)[1]
    assert heading.split() == ["stages", "workers", "done", "items/s", "queue", "held", "busy", "ETA"]


def test_a_narrow_terminal_shows_fewer_columns_without_cutting_them() -> None:
    assert drawn(captioning(), width=60) == [
        "captions: bound by 'caption' on GPUs, 97 % of what this",
        "machine can do",
        "stages          workers  items/s  queue   busy         ETA",
        "──────────────────────────────────────────────────────────",
        "read                4/4      4.0      0    5 %        done",
        "decode … clean    11/11     1.2k     12   71 %  3 min 10 s",
        "caption             3/4      4.0     12   97 %  2 h 05 min",
        "write               1/1      4.0      0    2 %  2 h 05 min",
        "1.6 GB of the 4.0 GB budget in flight · elapsed 5 min 10 s ·",
        "ETA 2 h 05 min",
    ]


@pytest.mark.parametrize("width", range(1, 130, 3))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long_name = pool("read_everything_there_is … write_it_all_again #2", stages=("a", "b"))
    lines = drawn(run(long_name, *captioning().pools), width=width, height=60)
    assert max(cell_len(line) for line in lines) <= width
    if width >= 30:
        assert any(line.startswith("caption ") and " 4.0" in line for line in lines)


def test_a_long_name_is_shortened_in_the_middle() -> None:
    row = drawn(run(pool("read_common_crawl … extract_text #2", stages=("a", "b"))), width=80)[3]
    assert row.startswith("read_com…_text #2 ")


def test_a_low_terminal_shows_the_bottleneck_and_the_busiest_pools() -> None:
    pools = [pool(f"stage {number}", busy=number / 100, stages=("x",)) for number in range(30)]
    lines = drawn(run(pool("caption", busy=0.0), *pools), height=12)
    assert len(lines) == 11
    assert [line.split("  ")[0] for line in lines[3:10]] == [
        "caption", "stage 25", "stage 26", "stage 27", "stage 28", "stage 29", "… and 25 pools more",
    ]  # fmt: skip


def test_names_are_shown_without_interpreting_markup() -> None:
    assert drawn(run(pool("[bold]x[/bold]"), bottleneck="[red]"))[0].startswith("captions: bound by '[red]'")


def test_a_terminal_is_redrawn_at_most_four_times_per_second() -> None:
    screen, clock = Screen(), Clock()
    with LiveView("captions", 60, clock=clock, console=screen.console) as view:
        assert screen.look() == ["captions: starting"]
        drawings = 0
        for _ in range(1_000):
            view.update(captioning())
            drawings += bool(screen.look())
            clock.now += 0.001
        assert drawings == 4


def test_the_terminal_is_restored_after_an_error() -> None:
    screen = Screen()
    stderr = sys.stderr
    with pytest.raises(ZeroDivisionError), LiveView("captions", 60, console=screen.console):
        raise ZeroDivisionError
    assert "\x1b[?25h" in screen.file.getvalue()
    assert sys.stderr is stderr


def test_without_a_terminal_one_line_is_printed_per_interval() -> None:
    screen, clock = Screen(terminal=False, width=40), Clock()
    with LiveView("captions", 60, clock=clock, console=screen.console) as view:
        for _ in range(59):
            view.update(captioning())
            clock.now += 1
        assert screen.look() == []
        for _ in range(122):
            view.update(captioning(failed=3))
            clock.now += 1
    lines = screen.look()
    assert len(lines) == 3
    assert lines[0] == (
        "captions, 5 min 10 s: 8,400 of about 39,400 done, 4.0/s; bound by 'caption' on GPUs, 97 % of what this "
        "machine can do; 1.6 GB of the 4.0 GB budget in flight; 3 failed; ETA 2 h 05 min"
    )


def test_a_dumb_terminal_gets_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    screen = Screen()
    with LiveView("captions", 0, console=screen.console) as view:
        view.update(captioning())
    (line,) = screen.look()
    assert line.startswith("captions, 5 min 10 s: ")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_disabled_view_shows_nothing(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    with LiveView("captions", 0, enabled=False, console=screen.console) as view:
        view.update(captioning())
    assert screen.file.getvalue() == ""


def test_standard_output_is_not_captured(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    with LiveView("captions", 60, console=screen.console) as view:
        view.update(captioning())
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in screen.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_a_closed_terminal_does_not_end_the_run(terminal: bool) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(5, "Input/output error")

    stderr = sys.stderr
    with LiveView("captions", 0, console=Console(file=Gone(), force_terminal=terminal)) as view:
        view.update(captioning())
        view.update(captioning())
    assert sys.stderr is stderr


def test_lines_go_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView("captions", 0) as view:
        view.update(captioning())
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
