"""``penstock reproduce``: run a failed stage again on the input it failed on."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo


@click.command("reproduce")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--trust", is_flag=True, help="Open FILE, which runs the code in it. Use it for files of your own runs only."
)
@click.option("--owner", metavar="USER", help="With --trust: open FILE even if it belongs to this other user.")
@click.option("--show", is_flag=True, help="Only show the input; do not run the stage.")
@debug_option
def command(file: Path, trust: bool, owner: str | None, show: bool) -> None:
    """Run a failed stage again on its input, in this process, with the full traceback.

    FILE is named in the dead-letter file of a run and in its error message. It contains the stage and the rows. It is a
    pickle, and opening a pickle runs the code in it, so FILE is opened only with --trust.

    \b
    Examples:
      penstock reproduce --trust clean/_penstock/failures/w3-1.pickle
      python -m pdb -m penstock reproduce --trust FILE
    """
    import traceback

    from penstock.core.sizes import plural
    from penstock.core.worker_info import NodeInfo, WorkerMetadata
    from penstock.errors import InputError
    from penstock.runtime.reproduction import load_failure
    from penstock.runtime.selection import rows_of
    from penstock.runtime.transport import dump_task
    from penstock.runtime.worker import ChainRunner

    try:
        steps, tasks = load_failure(file, trusted=trust, owner=owner)
    except InputError as error:
        raise click.ClickException(str(error)) from error
    for task in tasks:
        for row in range(min(rows_of(task), 3)):
            echo(f"input: {task.excerpt(row)}")
    if show:
        return
    worker = ChainRunner(steps)
    try:
        worker.start(NodeInfo("this machine"), WorkerMetadata("reproduce"))
        outputs = worker.run(tasks).outputs
        for output in outputs:
            dump_task(output)  # in a run, an output that cannot be pickled also fails
    except Exception as error:
        echo("".join(traceback.format_exception(error)), err=True)
        raise SystemExit(1) from error
    finally:
        worker.stop()
    echo(
        f"The stage did not fail this time. It returned {plural(len(outputs), 'task')} with "
        f"{plural(sum(t.num_items for t in outputs), 'item')}."
    )
