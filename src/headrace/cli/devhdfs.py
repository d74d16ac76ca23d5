"""``headrace devhdfs``: a real HDFS on this machine, until it is told to stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headrace.cli.outputs import json_option
from headrace.cli.sizes import ByteSize
from headrace.core.errors import CallerError
from headrace.report.document import write_json
from headrace.report.units import bytes_

if TYPE_CHECKING:
    from headrace.devhdfs.health import Health
    from headrace.devhdfs.state import Record, Register

_name = click.option("--name", default="default", show_default=True, help="Which cluster.")
_json = json_option("Write it as JSON to a file, - for stdout.")


@click.group()
def command() -> None:
    """Run a real HDFS on this machine, for development and tests.

    NameNode and DataNodes are Hadoop's own, a process each, on the loopback address only.
    Java 17 is needed; Hadoop is fetched with Maven the first time (108 MB). HDFS takes about
    200 MB of memory per process, and anyone on this machine may write to it.

    \b
    Examples:
      headrace devhdfs up --datanodes 4
      headrace devhdfs status && headrace devhdfs down
    """  # noqa: D301 - click reads the lone \b


@command.command()
@click.option(
    "--datanodes",
    type=click.IntRange(1, 64),
    default=3,
    show_default=True,
    help="Processes that hold blocks, about 200 MB of memory each.",
)
@click.option(
    "--namenodes",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="2: an active and a standby one, as a nameservice.",
)
@click.option(
    "--block-size", type=ByteSize(), default="8MiB", show_default=True, help="Of new files."
)
@click.option(
    "--replication",
    type=click.IntRange(1, 64),
    default=3,
    show_default=True,
    help="Copies of each block, on as many DataNodes as there are.",
)
@click.option(
    "--bandwidth", type=ByteSize(), help="Bytes per second that each DataNode serves at most."
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the files here, also after `down`; the next `up` finds them. Else temporary.",
)
@click.option(
    "--jars",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Directory of Hadoop's jars to run instead; HADOOP_HOME does the same.",
)
@_name
@_json
def up(*, name: str, json_file: str | None, **settings: Any) -> int:
    """Start a cluster, wait until it can be used, and say how.

    \b
    Examples:
      headrace devhdfs up --datanodes 4 --block-size 16MiB
      headrace devhdfs up --name slow --bandwidth 50MB --replication 2 --directory /data/hdfs
    """  # noqa: D301 - click reads the lone \b
    from headrace.devhdfs.state import Register

    register = Register.of_user()
    with register.locked(name):
        _clear_leftover(register, name)
        record = _start(register, name, settings)
    if json_file:
        write_json(json_file, record)
    if json_file != "-":
        click.echo(_instructions(record))
    return 0


def _clear_leftover(register: Register, name: str) -> None:
    """Remove what a crash has left under this name; refuse when it is alive."""
    from headrace.devhdfs.health import look
    from headrace.devhdfs.state import end_cluster

    record = register.load(name)
    if record is None:
        return
    if look(record).has_namenode:
        raise CallerError(
            f"the cluster {name!r} is up already, at {record.url}; stop it with "
            f"`headrace devhdfs down{_option(name)}`, or start another with --name"
        )
    ended = end_cluster(record)
    register.forget(name)
    click.echo(f"headrace: removed what an earlier {name!r} left ({ended} processes)", err=True)


def _start(register: Register, name: str, settings: dict[str, Any]) -> Record:
    from headrace.devhdfs.cluster import Cluster
    from headrace.devhdfs.state import describe

    def say(line: str) -> None:
        click.echo(f"headrace: {line}", err=True)

    cluster = Cluster(**settings, say=say)
    say(f"starting {name!r} in {cluster.directory}; this takes about 15 s")
    try:
        cluster.start()
        cluster.wait_ready()
        record = describe(name, cluster)
        register.save(record)
        cluster.leave()
    except BaseException:
        cluster.close()
        raise
    return record


def _instructions(record: Record) -> str:
    config = record.config
    lines = {
        "URL": record.url,
        "config": f"export HADOOP_CONF_DIR={record.config_dir}",
        "web": " ".join(f"http://{one.http}/" for one in record.namenodes),
        "logs": f"{record.directory}/*/log",
        "stop": f"headrace devhdfs down{_option(record.name)}",
    }
    copies = min(config.replication, config.datanodes)
    return "\n".join(
        [
            f"HDFS {record.name!r} is up: {config.datanodes} DataNodes, blocks of "
            f"{config.block_size / 2**20:g} MiB, {copies} {'copies' if copies > 1 else 'copy'}",
            *(f"  {key:<8}{value}" for key, value in lines.items()),
        ]
    )


def _option(name: str) -> str:
    return "" if name == "default" else f" --name {name}"


@command.command()
@_name
@_json
def status(*, name: str, json_file: str | None) -> int:
    """Show a cluster's processes and what its NameNode says; exit code 1 if it is not well.

    \b
    Examples:
      headrace devhdfs status
      headrace devhdfs status --json - | jq .state.live_datanodes
    """  # noqa: D301 - click reads the lone \b
    from headrace.devhdfs.health import look
    from headrace.devhdfs.state import Register

    register = Register.of_user()
    record = register.load(name)
    if record is None:
        click.echo(f"headrace: {_nothing_up(register, name)}", err=True)
        return 1
    health = look(record)
    if json_file:
        write_json(json_file, {"is_well": health.is_well, "cluster": record, "health": health})
    if json_file != "-":
        _print_health(record, health)
    return 0 if health.is_well else 1


def _nothing_up(register: Register, name: str) -> str:
    others = ", ".join(register.names())
    return f"no cluster {name!r} is up" + (f"; there is {others} (--name)" if others else "")


def _print_health(record: Record, health: Health) -> None:
    table = Table(box=SIMPLE_HEAD, title=f"{record.name} · {record.url}", title_justify="left")
    for column in ("daemon", "address", "process", "state"):
        table.add_column(column)
    for one in health.daemons:
        table.add_row(one.name, one.address, str(one.pid or ""), one.says)
    Console().print(table)
    state = health.state
    click.echo(
        f"{state.live_datanodes} DataNodes live, {state.dead_datanodes} dead, "
        f"{bytes_(state.used_bytes)} used, {state.under_replicated_blocks} blocks lack copies"
        f"{', in safe mode' if state.in_safe_mode else ''}"
        if state
        else "no active NameNode answers"
    )
    click.echo(f"logs: {record.directory}/*/log")


@command.command()
@_name
def down(*, name: str) -> int:
    """Stop a cluster and remove its temporary files.

    \b
    Examples:
      headrace devhdfs down
      headrace devhdfs down --name slow
    """  # noqa: D301 - click reads the lone \b
    from headrace.devhdfs.state import Register, end_cluster

    register = Register.of_user()
    with register.locked(name):
        record = register.load(name)
        if record is None:
            click.echo(f"headrace: {_nothing_up(register, name)}", err=True)
            return 0
        ended = end_cluster(record)
        register.forget(name)
    kept = "" if record.is_temporary else f"; its files stay in {record.directory}"
    click.echo(f"HDFS {name!r} is down ({ended} processes ended){kept}")
    return 0
