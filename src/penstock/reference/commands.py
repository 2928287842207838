"""Commands of the command line, described by their own help."""

from __future__ import annotations

from collections.abc import Iterator

import click

_WIDTH = 100


def command_help(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Yield the full name of a command and its help, then those of its subcommands.

    >>> @click.command()
    ... @click.option("--loud", is_flag=True, help="Print more.")
    ... def greet(): "Say hello."
    >>> [(name, "Say hello." in text, "Print more." in text) for name, text in command_help(greet, "greet")]
    [('greet', True, True)]
    """
    context = click.Context(command, parent=parent, info_name=name, terminal_width=_WIDTH, max_content_width=_WIDTH)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from command_help(found, below, context)
