"""The verbs of ``python -m testbed``: parse, call, print."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headrace.core.errors import CallerError, ConfigError, NotFoundError
from headrace.report.document import write_json
from testbed import removal
from testbed.bed import Testbed
from testbed.cgroups import find_trees
from testbed.description import BedDescription, HostDescription, describe
from testbed.host import Host
from testbed.names import BedNames
from testbed.probe import require_root
from testbed.scenario import Scenario
from testbed.services import Services, ServicesRecord
from testbed.state import Registry

_JSON = click.option(
    "--json", "json_file", metavar="FILE", help="Write the same as JSON to a file, - for stdout."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Emulate a cluster on this machine: hosts with rates, CPU quotas and disks of their own.

    Needs root. A bed is one emulated cluster; TARGET is the number of a bed or a scenario file.

    \b
    Examples:
      python -m testbed up testbed/scenarios/small.toml
      python -m testbed run testbed/scenarios/small.toml --on trainer-1 -- ip addr
    """  # noqa: D301 - click reads the lone \b


@cli.command()
@click.argument("scenario", type=click.Path(path_type=Path))
@_JSON
def up(scenario: Path, *, json_file: str | None) -> int:
    """Make the cluster of SCENARIO and leave it running; `down` removes it.

    \b
    Examples:
      python -m testbed up testbed/scenarios/small.toml
      python -m testbed up small.toml --json - | jq -r '.hosts[].address'
    """  # noqa: D301
    require_root()
    bed = Testbed(Scenario.load(scenario))
    click.echo(f"making {bed.scenario.name} …", err=True)
    bed.make()
    try:
        _start_to_stay(bed)
        bed.keep(scenario.read_text(encoding="utf-8"))
    except BaseException:
        bed.remove()
        raise
    made = describe(bed)
    if json_file:
        write_json(json_file, made)
    if json_file != "-":
        _print_hosts(made)
    return 0


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("target")
@click.option("--on", "host", metavar="HOST", help="Where; the first trainer if not given.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(target: str, *, host: str | None, command: tuple[str, ...]) -> int:
    """Run COMMAND on a host of TARGET and end with its exit code.

    A scenario file is made for the length of the command; a bed that is up is entered. Clients
    of the bed's HDFS and agents find them: HADOOP_CONF_DIR and the agents' token are set.

    \b
    Examples:
      python -m testbed run testbed/scenarios/small.toml --on storage-1 -- df -h .
      python -m testbed run 17 --on trainer-1 -- bash
    """  # noqa: D301
    require_root()
    with _entered(target) as bed:
        place = _chosen(bed, host)
        click.echo(f"{command[0]} on {place.name} ({place.ip}) of bed {bed.number}", err=True)
        known = ServicesRecord.of_bed(bed)
        given = os.environ | (known.environment() if known else {})
        done = subprocess.run(place.command(command), cwd=place.directory, env=given, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


@cli.command()
@click.argument("target")
def down(target: str) -> int:
    """Remove the bed TARGET, or all that `up` made from a scenario file.

    \b
    Examples:
      python -m testbed down 17
      python -m testbed down testbed/scenarios/small.toml
    """  # noqa: D301
    require_root()
    registry = Registry()
    for number in _matching(registry, target):
        _refuse_if_owned(registry, number)
        removal.remove(registry, number)
        click.echo(f"removed bed {number}")
    return 0


@cli.command()
@click.argument("target", required=False)
@_JSON
def status(target: str | None, *, json_file: str | None) -> int:
    """List the beds of this machine and their hosts. Exits with 1 if one was left by a crash.

    \b
    Examples:
      python -m testbed status
      python -m testbed status 17 --json -
    """  # noqa: D301
    require_root()
    registry = Registry()
    numbers = _matching(registry, target) if target else registry.numbers()
    beds = [_look_up(registry, number) for number in numbers]
    if json_file:
        write_json(json_file, {"beds": beds})
    if json_file != "-":
        _print_beds(beds)
    return int(any(bed.state == "abandoned" for bed in beds))


@cli.command()
def clean() -> int:
    """Remove what beds left whose owners ended without doing so. Beds in use stay.

    \b
    Examples:
      python -m testbed clean
      sudo -E python -m testbed clean
    """  # noqa: D301
    require_root()
    removed = removal.remove_abandoned(Registry())
    click.echo(f"removed bed {', '.join(map(str, removed))}" if removed else "nothing was left")
    return 0


@contextlib.contextmanager
def _entered(target: str) -> Iterator[Testbed]:
    """Attach to a bed, or make one for the length of a block."""
    if target.isdigit():
        yield Testbed.attach(int(target))
        return
    bed = Testbed(Scenario.load(Path(target)))
    click.echo(f"making {bed.scenario.name} …", err=True)
    with bed, contextlib.ExitStack() as running:
        if bed.scenario.services:
            click.echo("starting HDFS and agents …", err=True)
            running.enter_context(Services(bed))
        yield bed


def _start_to_stay(bed: Testbed) -> None:
    """Start what the scenario says runs on the hosts, and let it outlive this process."""
    if bed.scenario.services:
        click.echo("starting HDFS and agents …", err=True)
        services = Services(bed)
        services.start()
        services.leave()


def _chosen(bed: Testbed, name: str | None) -> Host:
    """Return the host of this name, or the first trainer."""
    if name is None and (trainers := bed.by_role("trainer")):
        return trainers[0]
    if name is None or name not in bed.hosts:
        said = "the scenario has no trainer" if name is None else f"there is no host {name!r}"
        raise CallerError(f"{said}; name one with --on: {', '.join(bed.hosts)}")
    return bed.hosts[name]


def _matching(registry: Registry, target: str) -> Sequence[int]:
    """Return the beds that a target means.

    Raises:
        NotFoundError: There is none.
    """
    if target.isdigit():
        found = [number for number in registry.numbers() if number == int(target)]
    else:
        name = Scenario.load(Path(target)).name
        records = {number: registry.record(number) for number in registry.numbers()}
        left = {number: record for number, record in records.items() if record and not record.owner}
        found = [number for number, record in left.items() if record.name == name]
    if not found:
        raise NotFoundError(f"no bed {target} is up; `python -m testbed status` lists all")
    return found


def _refuse_if_owned(registry: Registry, number: int) -> None:
    """Keep a bed from being removed below the process that uses it."""
    record = registry.record(number)
    if record and record.owner and not registry.is_abandoned(number):
        raise CallerError(
            f"bed {number} belongs to process {record.owner.pid}, and goes when that ends; end it"
        )


def _look_up(registry: Registry, number: int) -> BedDescription:
    """Return what is known of a bed; of one that belongs to a process, not the hosts."""
    record = registry.record(number)
    name = record.name if record else "unknown"
    if registry.is_abandoned(number):
        left = removal.look(BedNames(number=number), registry.directory(number), find_trees())
        return BedDescription(bed=number, scenario=name, state="abandoned", left=str(left))
    with contextlib.suppress(NotFoundError, ConfigError):
        return describe(Testbed.attach(number, registry=registry))
    owner = record.owner if record else None
    return BedDescription(
        bed=number, scenario=name, state="owned", owner_pid=owner.pid if owner else None
    )


def _print_beds(beds: Sequence[BedDescription]) -> None:
    console = Console()
    if not beds:
        console.print("no bed is up")
    for bed in beds:
        if bed.hosts:
            _print_hosts(bed)
        elif bed.state == "owned":
            console.print(f"bed {bed.bed} ({bed.scenario}) belongs to process {bed.owner_pid}")
        else:
            console.print(
                f"bed {bed.bed} ({bed.scenario}) was left by its owner: "
                f"{bed.left or 'files only'}; `python -m testbed clean` removes it"
            )


def _print_hosts(bed: BedDescription) -> None:
    console = Console()
    console.print(f"bed {bed.bed}: {bed.scenario}, files in {bed.directory}")
    table = Table("host", "role", "site", "address", "CPUs", "Mbit/s", "disk", box=SIMPLE_HEAD)
    for host in bed.hosts:
        table.add_row(*_row(host))
    console.print(table)
    for label, text in _directions(bed):
        console.print(f"{label:<8} {text}", soft_wrap=True)


def _directions(bed: BedDescription) -> Iterator[tuple[str, str]]:
    """Yield what a person needs next."""
    if bed.services:
        yield "HDFS:", bed.services.url
        yield "", f"export HADOOP_CONF_DIR={bed.services.config_dir}"
        yield "agents:", " ".join(bed.services.agents.values()) or "none"
        yield "token:", f"in {bed.services.token_file}"
    yield "enter:", f"python -m testbed run {bed.bed} --on {bed.hosts[0].name} -- bash"
    yield "remove:", f"python -m testbed down {bed.bed}"


def _row(host: HostDescription) -> tuple[str, ...]:
    return (
        host.name,
        host.role,
        host.site,
        host.address,
        "all" if host.cpus is None else f"{host.cpus:g}",
        "no limit" if host.rate_mbit_per_s is None else f"{host.rate_mbit_per_s:g}",
        host.disk or "-",
    )
