"""``penstock script``: run an unchanged ``nemo_curator`` script on Penstock."""

from __future__ import annotations

from pathlib import Path

import click


# Arguments after FILE belong to the script, --help included.
@click.command("script", context_settings={"allow_interspersed_args": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
def command(file: Path, arguments: tuple[str, ...]) -> None:
    """Run FILE, a script written for nemo_curator, on Penstock.

    The script runs as under python, with ARGS as its arguments, except that importing nemo_curator imports Penstock.
    To do the same without this command, put this line at the top of the script:

    \b
      import penstock.compat.nemo_curator

    \b
    Example:
      penstock script curate.py --input docs/ --output clean/
    """
    import runpy
    import sys

    import penstock.compat.nemo_curator  # noqa: F401 - installs the import hook

    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *arguments]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        runpy.run_path(str(file), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
