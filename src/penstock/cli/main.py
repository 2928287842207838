"""Entry point of the ``penstock`` command: find the subcommand, print errors and set the exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from importlib import import_module
from io import StringIO
from types import FrameType, TracebackType
from typing import Any, NoReturn

import click

import penstock
from penstock.cli.terminal import close_output, make_printable
from penstock.core.printable import printable_lines
from penstock.errors import PenstockError, PlanError, RecipeError, Terminated, suggestion
from penstock.runtime.limits import let_threads_sleep

COMMANDS = (
    "curate", "dedup", "demo", "doctor", "list", "plan", "preview", "reproduce", "run", "script", "simulate",
    "whatif", "why",
)  # fmt: skip

_GC_THRESHOLD_OBJECTS = 50_000

EXIT_FAILED = 1
EXIT_NOT_STARTED = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_OUTPUT_CLOSED = 128 + signal.SIGPIPE


class LazyGroup(click.Group):
    """Import each command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"penstock.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - any return value of a command
        """Run the command; exit with 141 if the reader of its output is gone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader exited, as `head` does; click would exit with 1
            raise SystemExit(EXIT_OUTPUT_CLOSED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed, or suggest the nearest name."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command '{args[0]}'.{suggestion(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(penstock.__version__, prog_name="penstock")
def cli() -> None:
    """Curate training data for large models.

    \b
    Examples:
      penstock demo                              curate a small sample
      penstock curate crawl/ clean/              read, filter, write documents
      penstock preview crawl/                    estimate from a sample
      penstock dedup fuzzy clean/ unique/        remove near-duplicates
      penstock run job.yaml input_path=crawl/    run a pipeline written in YAML
      penstock plan job.yaml input_path=crawl/   show its plan
      penstock why clean/ doc-17                 why was it kept or dropped?
      penstock whatif clean/ word_count.min_words=80
                                                 what would be kept then?
      penstock simulate run.json --cluster "4x(8xH100-80,128cpu,1TB)"
                                                 how long would it take there?
      penstock list filters                      list the built-in filters
      penstock doctor                            check this machine

    \b
    Exit codes:
      0    success
      1    the run failed
      2    wrong usage, recipe or plan; nothing was started
      129  stopped by SIGHUP
      130  stopped with Ctrl-C
      141  the reader of the output is gone
      143  stopped by SIGTERM
    """


def main() -> NoReturn:
    """Run the command line and exit with one of the codes listed in ``penstock --help``."""
    # Imported modules are never garbage. Scanning them repeatedly takes a fifth of the start-up time.
    gc.set_threshold(_GC_THRESHOLD_OBJECTS)
    atexit.register(gc.freeze)
    let_threads_sleep()
    make_printable()
    sys.excepthook = _print_traceback
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, _terminate)
    try:
        sys.exit(_run())
    finally:
        close_output()


def _run() -> int:
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return _without_working_folder()
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        message = StringIO()
        error.show(file=message)
        click.echo(printable_lines(message.getvalue()), err=True, nl=False)
        return EXIT_NOT_STARTED
    except (KeyboardInterrupt, click.Abort):
        _say("penstock: stopped.")
        return EXIT_INTERRUPTED
    except Terminated as stop:
        _say(f"penstock: stopped by {stop.name}.")
        return 128 + stop.signal
    except PenstockError as error:
        if _debug():
            raise
        _say(f"penstock: {error}")
        return EXIT_NOT_STARTED if isinstance(error, PlanError | RecipeError) else EXIT_FAILED
    return 0


def _say(text: str) -> None:
    from penstock.monitor.console import say_on_stderr

    say_on_stderr(text)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise Terminated(number)


def _without_working_folder() -> int:
    from penstock.storage.filesystem import require_working_folder

    try:
        require_working_folder()
    except PenstockError as error:
        _say(f"penstock: {error}")
    return EXIT_NOT_STARTED


def _print_traceback(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Print the traceback with control characters escaped."""
    from traceback import format_exception

    click.echo(printable_lines("".join(format_exception(kind, error, traceback))), err=True, nl=False)


def _debug() -> bool:
    from penstock.cli.options import debug_asked_for

    return debug_asked_for()
