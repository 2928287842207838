"""The command ``penstock``: finds the subcommand, and turns errors into words and exit codes."""

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

_OBJECTS_BETWEEN_LOOKS = 50_000

EXIT_FAILED = 1
EXIT_NOT_STARTED = 2
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_OUTPUT_CLOSED = 128 + signal.SIGPIPE


class LazyGroup(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"penstock.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - whatever a command returns
        """Run the command that was typed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # its reader went away, as `head` does; click would exit with the code of a failure
            raise SystemExit(EXIT_OUTPUT_CLOSED) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was typed, or the one that was meant."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"there is no command '{args[0]}'.{suggestion(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(penstock.__version__, prog_name="penstock")
def cli() -> None:
    """Curate training data for large models.

    \b
    Examples:
      penstock demo                                 see it work on a small sample
      penstock curate crawl/ clean/                 the main job: read, filter, write
      penstock dedup fuzzy clean/ unique/           remove what is nearly there twice
      penstock run recipe.yaml input_path=crawl/    a pipeline written as YAML
      penstock plan recipe.yaml input_path=crawl/   what that would do, without doing it
      penstock preview crawl/                       what it will keep and how long it takes, from a sample
      penstock why clean/ doc-17                    why a document was kept or dropped
      penstock whatif clean/ word_count.min_words=80    what another threshold would have kept
      penstock simulate run.json --cluster "4x(8xH100-80,128cpu,1TB)"   how long it would take there
      penstock doctor                               what this machine offers
      penstock list filters                         what comes with Penstock, and how it is used

    \b
    Exit codes:
      0  done     1  the run failed     2  wrong usage, recipe or plan: nothing was started
      130  stopped with Ctrl-C     143  by SIGTERM     129  by SIGHUP     141  the reader of the output is gone
    """


def main() -> NoReturn:
    """Run the command line and exit with a code that means something."""
    # What is loaded is no garbage: to look through it again and again takes a fifth of the time a command starts in.
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS)
    atexit.register(gc.freeze)
    let_threads_sleep()
    make_printable()
    sys.excepthook = _print_traceback
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
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
    """Print what Python would, with control characters in messages written out."""
    from traceback import format_exception

    click.echo(printable_lines("".join(format_exception(kind, error, traceback))), err=True, nl=False)


def _debug() -> bool:
    from penstock.cli.options import debug_asked_for

    return debug_asked_for()
