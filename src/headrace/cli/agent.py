"""``headrace agent``: runs the storage-side daemon in the foreground."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec

from headrace.cli.asking import require_https
from headrace.cli.daemon import announce_address, read_toml, tls_files
from headrace.cli.numbers import FiniteRange
from headrace.cli.sizes import ByteSize
from headrace.cli.tiers import FORM, TierForm
from headrace.core.errors import ConfigError
from headrace.core.keys import key_hint

if TYPE_CHECKING:
    from headrace.agent.agent import ReadyMessage
    from headrace.agent.config import AgentConfig
    from headrace.agent.cpu import CpuScope
    from headrace.agent.tiers import Tier
    from headrace.wire.endpoint import Endpoint

RESUME_RATIO = 0.875
"""Transforms come back below this part of the threshold (0.8 → 0.7)."""

_FILE = click.Path(path_type=Path)

_LISTS = ("root", "storage", "tier", "host", "allow-op")
_TEXTS = (
    "listen",
    "unix",
    "token-file",
    "controller",
    "controller-ca",
    "tls-cert",
    "tls-key",
    "cache",
    "reorder",
    "name",
    "cpu-scope",
    "ready-file",
    "log-level",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """The options, as parsed."""

    root: tuple[Path, ...]
    storage: tuple[str, ...]
    tier: tuple[Tier, ...]
    controller: str | None
    controller_ca: Path | None
    host: tuple[str, ...]
    listen: str
    unix: Path | None
    token_file: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    name: str | None
    workers: int | None
    memory: int
    range_memory: int
    copies: int
    worker_memory: int
    task_seconds: float
    lead_seconds: float
    cache: Path | None
    cache_bytes: int
    cache_memory: int
    reorder: Literal["ordered", "always"]
    allow_op: tuple[str, ...]
    cpu_threshold: float
    cpu_scope: CpuScope
    ready_file: Path | None
    ready_fd: int | None
    exit_with_parent: bool
    log_level: str


def load_defaults(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Take defaults from a TOML file whose keys are the long options.

    Raises:
        NotFoundError: there is no such file.
        ConfigError: the file is not TOML, or has a key that is no option.
    """
    if path is None:
        return
    known = [field.name.replace("_", "-") for field in fields(Given)]
    values = read_toml(path)
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}; {key_hint(key, known)}")
        _require_form(path, key, value)
    context.default_map = {key.replace("-", "_"): value for key, value in values.items()}


def _require_form(path: Path, key: str, value: object) -> None:
    """Refuse what no option is written like; click checks the rest."""
    if key in _LISTS and not isinstance(value, list):
        raise ConfigError(f'{path}: {key} must be a list, such as {key} = ["…"]')
    form, name = _form_of(key)
    for item in value if key in _LISTS and isinstance(value, list) else [value]:
        if not isinstance(item, form):
            raise ConfigError(f"{path}: {key} must be {name}, not {item!r}")


def _form_of(key: str) -> tuple[type | UnionType, str]:
    if key in _LISTS or key in _TEXTS:
        return str, "text"
    if key in ("workers", "copies", "ready-fd"):
        return int, "a whole number"
    return str | int | float, "text or a number"


@click.command()
@click.option(
    "--config",
    type=_FILE,
    callback=load_defaults,
    is_eager=True,
    expose_value=False,
    help="TOML file with any of the options below as keys.",
)
@click.option(
    "--root", multiple=True, type=_FILE, help="Directory to serve; repeatable. No other is read."
)
@click.option(
    "--storage",
    multiple=True,
    metavar="URL",
    help="Folder of a remote store to serve, as jobs name it (hdfs://…, s3://…); repeatable.",
)
@click.option(
    "--tier",
    multiple=True,
    type=TierForm(),
    metavar=FORM,
    help="Tier of storage (MEDIA ssd or hdd; the name says it unless given), what it can be relied "
    "on to read, and the roots or stores on it, as in hdd=150MB/s:/data; link=RATE is what samples "
    "leave by. Repeatable.",
)
@click.option(
    "--controller",
    metavar="URL",
    help="Reports there what jobs read, and holds them to the quotas that it orders.",
)
@click.option("--controller-ca", type=_FILE, help="Certificates to trust for it, PEM.")
@click.option(
    "--host",
    multiple=True,
    metavar="NAME",
    help="Name or address by which the store knows the node beside this agent; repeatable. "
    "This host's own unless given.",
)
@click.option(
    "--listen",
    default="127.0.0.1:7411",
    show_default=True,
    help="HOST:PORT (0: any free port) or unix:PATH.",
)
@click.option("--unix", type=_FILE, help="Unix socket besides, for clients on this host.")
@click.option("--token-file", type=_FILE, help="Bearer token; else $HEADRACE_TOKEN is taken.")
@click.option("--tls-cert", type=_FILE, help="Certificate chain of the TCP address, PEM.")
@click.option("--tls-key", type=_FILE, help="Its key, PEM.")
@click.option("--name", help="Name in rosters; the host's unless given.")
@click.option(
    "--workers",
    type=int,
    help="Worker processes, 0: raw bytes only. One per usable CPU unless given.",
)
@click.option(
    "--memory", type=ByteSize(), default="2GiB", show_default=True, help="For prepared samples."
)
@click.option(
    "--range-memory",
    type=ByteSize(),
    default="1GiB",
    show_default=True,
    help="For ranges of files that are kept while a lease lasts; 0: none are.",
)
@click.option(
    "--copies",
    type=click.IntRange(0, 64),
    default=4,
    show_default=True,
    help="Groups of checkpoints' chunks that are copied at once for a controller, into "
    ".headrace/staging of a root or store and nowhere else; 0: none.",
)
@click.option(
    "--worker-memory", type=ByteSize(), default="2GiB", show_default=True, help="Of one worker."
)
@click.option(
    "--task-seconds", type=float, default=60.0, show_default=True, help="Longest for one sample."
)
@click.option(
    "--lead-seconds",
    type=FiniteRange(min=0.0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long before it is due a sample may be prepared.",
)
@click.option(
    "--cache",
    type=_FILE,
    help="Directory of a fast disk, where encoded samples are kept that are needed again.",
)
@click.option(
    "--cache-bytes", type=ByteSize(), default="0", help="Bytes to reserve there, such as 200GiB."
)
@click.option(
    "--cache-memory",
    type=ByteSize(),
    default="0",
    help="Part of --memory that keeps encoded samples that are needed again.",
)
@click.option(
    "--reorder",
    type=click.Choice(["ordered", "always"]),
    default="ordered",
    show_default=True,
    help="For which jobs scattered reads are merged into long ones that fill the cache: those "
    "that the controller orders, or all.",
)
@click.option(
    "--allow-op", multiple=True, help="Users' op that jobs may name: module:function, module:*."
)
@click.option(
    "--cpu-threshold",
    type=FiniteRange(0.1, 1.0),
    default=0.8,
    show_default=True,
    help="Others' share of the CPU above which raw bytes are served; 1: never.",
)
@click.option(
    "--cpu-scope",
    type=click.Choice(["host", "group"]),
    default="host",
    show_default=True,
    help="Who the others are: all processes of the host, or those under the same CPU quota, "
    "for a container whose quota is guaranteed.",
)
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
def command(**given: Any) -> None:
    """Serve just-in-time samples from this host's storage.

    Runs in the foreground until SIGTERM or Ctrl-C; says on standard error where it answers.

    \b
    Examples:
      headrace agent --root /data --token-file ~/.headrace-token
      headrace agent --storage hdfs://namenode:8020/data --listen 0.0.0.0:7411
      headrace agent --root /data --listen 0.0.0.0:7411 --unix /run/headrace.sock \\
          --tls-cert agent.pem --tls-key agent.key --memory 8GiB
      headrace agent --root /data --tier hdd=150MB/s --controller http://head:7410
    """  # noqa: D301 - click reads the lone \b
    from headrace.agent.agent import run_agent

    options = Given(**given)
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(name)s %(levelname)s: %(message)s"
    )
    config = _config(options)
    if config.tls is None and not config.listen.is_local:
        click.echo(
            f"headrace: {config.listen.host} is reached from other hosts, and without --tls-cert "
            "tokens and samples cross the network in clear",
            err=True,
        )
    run_agent(config, _announcer(options), exit_with_parent=options.exit_with_parent)


def _config(options: Given) -> AgentConfig:
    from headrace.agent.config import AgentConfig
    from headrace.policy.guard import GuardLimits
    from headrace.wire.auth import load_token
    from headrace.wire.listening import Listen

    chosen: dict[str, Any] = {
        "name": options.name,
        "workers": options.workers,
        "hosts": options.host or None,
    }
    return AgentConfig(
        roots=options.root,
        storages=options.storage,
        token=(token := load_token(options.token_file)),
        tiers=options.tier,
        controller=_controller(options, token),
        listen=Listen.parse(options.listen),
        unix_path=options.unix.absolute() if options.unix else None,
        tls=tls_files(options.tls_cert, options.tls_key),
        memory_bytes=options.memory,
        range_memory_bytes=options.range_memory,
        copies=options.copies,
        worker_memory_bytes=options.worker_memory,
        task_s=options.task_seconds,
        lead_s=options.lead_seconds,
        cache=options.cache,
        cache_bytes=options.cache_bytes,
        cache_memory_bytes=options.cache_memory,
        reorder=options.reorder,
        allowed_ops=options.allow_op,
        cpu_scope=options.cpu_scope,
        guard=GuardLimits(
            stop_share=options.cpu_threshold,
            resume_share=options.cpu_threshold * RESUME_RATIO,
        ),
        **{name: value for name, value in chosen.items() if value is not None},
    )


def _controller(options: Given, token: str) -> Endpoint | None:
    from headrace.agent.controlling import controller_at

    require_https("--controller-ca", options.controller_ca, options.controller)
    if options.controller is None:
        return None
    if not any(tier.media != "link" for tier in options.tier):
        click.echo(
            "headrace: without --tier the controller does not know what this host's storage can "
            "give, and divides nothing of it",
            err=True,
        )
    ca_file = str(options.controller_ca) if options.controller_ca else None
    return controller_at(options.controller, token, ca_file)


def _announcer(options: Given) -> Callable[[ReadyMessage], None]:
    def announce(message: ReadyMessage) -> None:
        socket = f"unix:{message.unix_socket}"
        also = f" and {socket}" if message.unix_socket and socket != message.address else ""
        click.echo(f"headrace agent {message.name} answers at {message.address}{also}", err=True)
        if options.storage:
            click.echo(f"headrace: it runs beside {', '.join(message.hosts)}", err=True)
        text = msgspec.json.encode(message) + b"\n"
        announce_address(text, file=options.ready_file, descriptor=options.ready_fd)

    return announce
