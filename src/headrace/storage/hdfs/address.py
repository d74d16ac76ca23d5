"""From an ``hdfs:`` URL and Hadoop's properties to a cluster's addresses. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import unquote, urlsplit

from headrace.core.errors import ConfigError
from headrace.storage.hdfs.config import HdfsConfig

RPC_PORT = 8020
HTTP_PORT = 9870
HTTPS_PORT = 9871


@dataclass(frozen=True, kw_only=True, slots=True)
class HdfsAddress:
    """Where a dataset is."""

    authority: str
    """``host:port`` of the one NameNode, or the name of a nameservice."""

    root: str
    """Absolute path in the cluster, without a slash at its end; empty is ``/``."""

    namenodes: tuple[str, ...]
    """``host:port`` for RPC of each NameNode."""

    web: tuple[str, ...]
    """``http://host:port`` or ``https://host:port`` of each NameNode."""

    @property
    def url(self) -> str:
        """The root as a URL."""
        return f"hdfs://{self.authority}{self.root}"


def parse_address(url: str, config: HdfsConfig) -> HdfsAddress:
    """Return the addresses behind ``hdfs://HOST:PORT/…``, ``hdfs://NAMESERVICE/…``, ``hdfs:///…``.

    Raises:
        ConfigError: no configuration knows the nameservice, or there is none; names the
            nearest that is known.
    """
    parts = urlsplit(url, allow_fragments=False)
    path = unquote(parts.path + (f"?{parts.query}" if parts.query else ""))
    authority = parts.netloc.rpartition("@")[2] or _default_authority(url, config)
    root = "/".join(["", *(name for name in path.split("/") if name)])
    if _nameservice_members(authority, config.properties):
        return _highly_available(authority, root, config)
    if _has_port(authority):
        return _single(authority, root, config)
    if _is_host(authority):
        return _single(f"{authority}:{RPC_PORT}", root, config)
    raise ConfigError(_unknown(authority, url, config))


def _default_authority(url: str, config: HdfsConfig) -> str:
    default = urlsplit(config.properties.get("fs.defaultFS", ""))
    if default.scheme == "hdfs" and default.netloc:
        return default.netloc
    where = f"{config.directory} sets" if config.directory else "HADOOP_CONF_DIR is not set, so"
    raise ConfigError(
        f"cannot open {url}: it names no NameNode and {where} no fs.defaultFS of scheme hdfs:; "
        "write hdfs://NAMENODE:PORT/…, or let HADOOP_CONF_DIR name the cluster's configuration"
    )


def _nameservice_members(name: str, properties: Mapping[str, str]) -> list[str]:
    members = properties.get(f"dfs.ha.namenodes.{name}", "")
    return [member.strip() for member in members.split(",") if member.strip()]


def _highly_available(name: str, root: str, config: HdfsConfig) -> HdfsAddress:
    members = _nameservice_members(name, config.properties)
    rpc = [config.properties.get(f"dfs.namenode.rpc-address.{name}.{who}") for who in members]
    if None in rpc:
        missing = members[rpc.index(None)]
        raise ConfigError(
            f"{config.directory} names {missing} a NameNode of {name}, but sets no "
            f"dfs.namenode.rpc-address.{name}.{missing}; add it to hdfs-site.xml"
        )
    namenodes = tuple(address for address in rpc if address is not None)
    web = [
        _web(address, f".{name}.{who}", config)
        for who, address in zip(members, namenodes, strict=True)
    ]
    return HdfsAddress(authority=name, root=root, namenodes=namenodes, web=tuple(web))


def _single(authority: str, root: str, config: HdfsConfig) -> HdfsAddress:
    suffix = _suffix_of(authority, config.properties)
    web = _web(authority, suffix, config) if suffix is not None else _default_web(authority, config)
    return HdfsAddress(authority=authority, root=root, namenodes=(authority,), web=(web,))


def _suffix_of(authority: str, properties: Mapping[str, str]) -> str | None:
    """Return what follows ``dfs.namenode.rpc-address`` in the property that names a NameNode."""
    key = "dfs.namenode.rpc-address"
    for name, value in properties.items():
        if name.startswith(key) and value == authority:
            return name.removeprefix(key)
    default = urlsplit(properties.get("fs.defaultFS", "")).netloc
    return "" if default == authority else None


def _web(rpc: str, suffix: str, config: HdfsConfig) -> str:
    """Return a NameNode's HTTP address; one bound to all interfaces is on the RPC's host."""
    scheme = _scheme(config)
    address = config.properties.get(f"dfs.namenode.{scheme}-address{suffix}")
    if address is None:
        return _default_web(rpc, config)
    host, _, port = address.rpartition(":")
    return f"{scheme}://{_host(rpc) if host in ('', '0.0.0.0') else host}:{port}"


def _default_web(rpc: str, config: HdfsConfig) -> str:
    scheme = _scheme(config)
    return f"{scheme}://{_host(rpc)}:{HTTPS_PORT if scheme == 'https' else HTTP_PORT}"


def _scheme(config: HdfsConfig) -> str:
    return "https" if config.properties.get("dfs.http.policy") == "HTTPS_ONLY" else "http"


def _host(address: str) -> str:
    return address.rpartition(":")[0]


def _has_port(authority: str) -> bool:
    host, _, port = authority.rpartition(":")
    return bool(host) and port.isdecimal() and 0 < int(port) < 1 << 16


def _is_host(name: str) -> bool:
    """Tell a host from a misspelt nameservice: these have no dots."""
    if name == "localhost" or "." in name:
        return True
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _unknown(name: str, url: str, config: HdfsConfig) -> str:
    prefix = "dfs.ha.namenodes."
    known = sorted(key[len(prefix) :] for key in config.properties if key.startswith(prefix))
    if not config.directory:
        found = "HADOOP_CONF_DIR is not set, so no nameservice is known"
    else:
        found = f"{config.directory} knows {', '.join(known) or 'no nameservice at all'}"
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"a host needs its port: hdfs://{name}:8020/…"
    return f"cannot open {url}: no nameservice {name!r}; {found}; {hint}"
