"""``penstock reproduce``: see again what a stage failed on."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.options import debug_option
from penstock.cli.shown import echo


@click.command("reproduce")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--show", is_flag=True, help="Only show the input, without running the stage on it.")
@debug_option
def command(file: Path, show: bool) -> None:
    """Run the stage that failed on the input it failed on, in this process, with the whole traceback.

    FILE is named in the dead-letter file of a run and in its error message. It holds the stage and the rows; it is a
    pickle, so open only those of your own runs.

    \b
    Examples:
      penstock reproduce clean/_penstock/failures/w3-1.pickle
      python -m pdb -m penstock reproduce clean/_penstock/failures/w3-1.pickle
    """
    import traceback

    from penstock.core.worker_info import NodeInfo, WorkerMetadata
    from penstock.runtime.reproduction import load_failure
    from penstock.runtime.selection import rows_of
    from penstock.runtime.worker import Worker

    steps, tasks = load_failure(file)
    for task in tasks:
        for row in range(min(rows_of(task), 3)):
            echo(f"input: {task.excerpt(row)}")
    if show:
        return
    worker = Worker(steps)
    try:
        worker.start(NodeInfo("this machine"), WorkerMetadata("reproduce"))
        outputs = worker.run(tasks).outputs
    except Exception as error:
        echo("".join(traceback.format_exception(error)), err=True)
        raise SystemExit(1) from error
    finally:
        worker.stop()
    echo(f"It did not fail this time: {len(outputs)} tasks came out, {sum(t.num_items for t in outputs)} items.")
