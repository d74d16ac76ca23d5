"""``headrace controller``: runs the controller in the foreground."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headrace.cli.daemon import announce_address, read_toml, tls_files
from headrace.cli.numbers import FiniteRange
from headrace.cli.sizes import ByteSize
from headrace.cli.tiers import TierForm
from headrace.core.errors import ConfigError
from headrace.core.keys import key_hint

if TYPE_CHECKING:
    from headrace.agent.tiers import Tier
    from headrace.controller.config import ControllerConfig
    from headrace.controller.controller import ReadyMessage
    from headrace.controller.limits import StewardLimits
    from headrace.policy.reservation.limits import ReservationLimits
    from headrace.wire.control import TierOffer

_FILE = click.Path(path_type=Path)
_RESERVATION, _HOTSPOT = "reservation", "hotspot"
_TABLES = (_RESERVATION, _HOTSPOT)
"""Limits of the policies: tables of the configuration file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options, as parsed."""

    listen: str
    token_file: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    journal: Path | None
    tier: tuple[Tier, ...]
    pool_share: float | None
    agent_silent: float
    job_silent: float
    copy_budget: int | None
    open_metrics: bool
    ready_file: Path | None
    ready_fd: int | None
    exit_with_parent: bool
    log_level: str
    reservation: Mapping[str, Any]
    hotspot: Mapping[str, Any]
    """Tables of the configuration file, as far as it has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """The tables of the configuration file."""

    source: str = ""
    tables: Mapping[str, Any] = field(default_factory=lambda: {name: {} for name in _TABLES})


def load_defaults(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Take defaults from a TOML file: long options as keys, and the policies' limits as tables.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: the file is not TOML, or has a key that is no option.
    """
    if path is None:
        return
    values = dict(read_toml(path))
    tables = {name: values.pop(name, {}) for name in _TABLES}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise ConfigError(f"{path}: {name} must be a table, [{name}]")
    known = [name.replace("_", "-") for name in Given.__slots__ if name not in _TABLES]
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}; {key_hint(key, [*known, *_TABLES])}")
        if (key == "tier") != isinstance(value, list):
            form = 'a list, such as tier = ["hdd=600MB"]' if key == "tier" else "one value"
            raise ConfigError(f"{path}: {key} must be {form}, not {value!r}")
    context.default_map = {key.replace("-", "_"): value for key, value in values.items()}
    context.obj = Tables(source=str(path), tables=tables)


@click.command()
@click.option(
    "--config",
    type=_FILE,
    callback=load_defaults,
    is_eager=True,
    expose_value=False,
    help="TOML file with any of the options below as keys, and the policies' limits as the "
    "tables [reservation] and [hotspot].",
)
@click.option(
    "--listen",
    default="127.0.0.1:7410",
    show_default=True,
    help="HOST:PORT (0: any free port) or unix:PATH.",
)
@click.option("--token-file", type=_FILE, help="Bearer token; else $HEADRACE_TOKEN is taken.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain, PEM.")
@click.option("--tls-key", type=_FILE, help="Its key, PEM.")
@click.option(
    "--journal",
    type=_FILE,
    help="SQLite file that a restart begins with. Without it a restart knows only what agents "
    "and trainers tell again.",
)
@click.option(
    "--tier",
    multiple=True,
    type=TierForm(),
    metavar="NAME[:MEDIA]=RATE",
    help="Storage that no agent speaks for, such as hdd=600MB (a second); MEDIA is ssd, hdd or "
    "link, the name unless given; repeatable.",
)
@click.option(
    "--pool-share",
    type=FiniteRange(0.0, 0.9),
    help="Part of each tier that is only lent; 0.15 unless given.",
)
@click.option(
    "--agent-silent",
    type=FiniteRange(min=2.0),
    default=15.0,
    show_default=True,
    help="Seconds after which an agent that says nothing is not counted on.",
)
@click.option(
    "--job-silent",
    type=FiniteRange(min=15.0),
    default=300.0,
    show_default=True,
    help="Seconds after which a job that says nothing has ended.",
)
@click.option(
    "--copy-budget",
    type=ByteSize(),
    help="Most bytes that all replications together move in any second, such as 500MB.",
)
@click.option("--open-metrics", is_flag=True, help="Let /metrics be read without the token.")
@click.option("--ready-file", type=_FILE, help="Gets the address as JSON once it answers.")
@click.option("--ready-fd", type=int, help="The same to an open descriptor.")
@click.option("--exit-with-parent", is_flag=True, help="End when the process that started it ends.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="warning",
    show_default=True,
    help="What is logged to standard error.",
)
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Give storage bandwidth to the jobs whose accelerators would wait.

    Trainers and agents report to it. Runs in the foreground until SIGTERM or Ctrl-C; says on
    standard error where it answers. While it is away the last quotas hold.

    \b
    Examples:
      headrace controller --token-file ~/.headrace-token --journal /var/lib/headrace/journal.db
      headrace controller --listen 0.0.0.0:7410 --tls-cert c.pem --tls-key c.key --pool-share 0.2
    """  # noqa: D301 - click reads the lone \b
    from headrace.controller.controller import run_controller

    found: Tables = context.obj or Tables()
    options = Given(**given, **found.tables)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(name)s %(levelname)s: %(message)s"
    )
    config = _config(options, found.source)
    if config.tls is None and not config.listen.is_local:
        click.echo(
            f"headrace: {config.listen.host} is reached from other hosts, and without --tls-cert "
            "tokens cross the network in clear",
            err=True,
        )

    def announce(message: ReadyMessage) -> None:
        click.echo(f"headrace controller answers at {message.address}", err=True)
        text = msgspec.json.encode(message) + b"\n"
        announce_address(text, file=options.ready_file, descriptor=options.ready_fd)

    run_controller(config, announce, exit_with_parent=options.exit_with_parent)


def _config(options: Given, source: str) -> ControllerConfig:
    from headrace.controller.config import ControllerConfig
    from headrace.controller.replicating.replicating import ReplicatingConfig
    from headrace.core.strict import convert
    from headrace.policy.hotspot.limits import HotspotLimits
    from headrace.wire.auth import load_token
    from headrace.wire.listening import Listen

    return ControllerConfig(
        token=load_token(options.token_file),
        listen=Listen.parse(options.listen),
        tls=tls_files(options.tls_cert, options.tls_key),
        journal=options.journal.expanduser().absolute() if options.journal else None,
        open_metrics=options.open_metrics,
        limits=_limits(options, source),
        hotspots=convert(options.hotspot, HotspotLimits, source=f"{source}: [{_HOTSPOT}]"),
        replicating=ReplicatingConfig(bytes_per_s=options.copy_budget),
    )


def _limits(options: Given, source: str) -> StewardLimits:
    from headrace.controller.limits import StewardLimits

    return StewardLimits(
        reservation=_reservation(options, source),
        tiers=tuple(_offer(tier) for tier in options.tier),
        agent_silent_s=options.agent_silent,
        job_silent_s=options.job_silent,
    )


def _reservation(options: Given, source: str) -> ReservationLimits:
    from headrace.core.strict import convert
    from headrace.policy.reservation.limits import ReservationLimits

    limits = convert(options.reservation, ReservationLimits, source=f"{source}: [{_RESERVATION}]")
    if options.pool_share is None:
        return limits
    return replace(limits, pool=replace(limits.pool, share=options.pool_share))


def _offer(tier: Tier) -> TierOffer:
    from headrace.wire.control import TierOffer

    if tier.places:
        raise ConfigError(
            f"--tier {tier.name}: the controller reads nothing, so give it no places; "
            "agents are told where a tier lies"
        )
    return TierOffer(tier=tier.name, media=tier.media, bytes_per_s=tier.bytes_per_s)
