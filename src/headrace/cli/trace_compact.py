"""``headrace trace compact``: makes a folder of segments smaller."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.outputs import require_writable_folder
from headrace.cli.reading import progress_bar
from headrace.core.errors import NotFoundError
from headrace.report.units import bytes_, counted
from headrace.trace.compaction import closed_segments, compact, holds_events


@click.command("compact")
@click.argument("folder", type=click.Path(path_type=Path))
def command(*, folder: Path) -> int:
    """Make a folder of what headrace recorded smaller, in place.

    Segments that are no longer being written become one sorted Parquet file for each host; no
    event is lost, and the folder can be read at any moment. It needs space beside them for a copy.
    Exits with 1 if damaged segments were left as they are.

    \b
    Examples:
      headrace trace compact ~/.cache/headrace/traces/my-job
      headrace trace compact traces/my-job && headrace trace show traces/my-job
    """  # noqa: D301 - click reads the lone \b
    if not folder.is_dir():
        raise NotFoundError(f"there is no folder {folder}; name one that holds segments")
    require_writable_folder(folder)
    if not holds_events(folder):
        raise NotFoundError(f"no segments in {folder}; name the folder of one run")
    segments = closed_segments(folder)
    with progress_bar("compacting", 2 * sum(path.stat().st_size for path in segments)) as advanced:
        done = compact(segments, advanced)
    click.echo(
        f"{counted(done.segments, 'segment')}, {counted(done.events, 'event')}: "
        f"{bytes_(done.before_bytes)} became {bytes_(done.after_bytes)}"
    )
    for path in done.damaged:
        click.echo(f"headrace: {path} is damaged and was left as it is", err=True)
    return 1 if done.damaged else 0
