"""What an HDFS client is told: Hadoop's own files, identity, and how long it may wait."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from headrace.core.errors import ConfigError
from headrace.storage.hdfs.sitefiles import read_site_files
from headrace.storage.waits import read_waits

WAIT_VARIABLES = {
    "outage_s": "HEADRACE_HDFS_OUTAGE_S",
    "read_timeout_s": "HEADRACE_HDFS_READ_TIMEOUT_S",
}
"""Option → variable of the environment that sets it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HdfsConfig:
    """Everything about a cluster that its URL does not say.

    Tried on clusters without Kerberos, with one NameNode and with two (HA). The options of
    Kerberos (``hadoop.security.*``, ``dfs.data.transfer.protection``) and of observer reads
    (``dfs.client.failover.*``, RPC state ids) reach hdfs-native as the site files give them.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    """Hadoop's properties, as ``core-site.xml`` and ``hdfs-site.xml`` give them."""

    directory: str | None = None
    """Where the properties are from; None when there is no such directory."""

    user: str = "hdfs"
    """Who asks the NameNode's HTTP port. RPC takes ``HADOOP_USER_NAME`` from the environment."""

    kerberos_principal: str | None = None
    kerberos_keytab: str | None = None
    kerberos_cache: str | None = None

    namenode_timeout_s: float = 10.0
    """Longest wait for one answer of a NameNode [s]."""

    outage_s: float = 60.0
    """How long a NameNode that answered before is asked again while it does not answer [s]."""

    datanode_timeout_s: float = 5.0
    """Silence of a DataNode after which the next replica is read [s]."""

    hedge_s: float = 1.5
    """Wait for bytes after which they are asked for a second time, elsewhere if possible [s]."""

    read_timeout_s: float = 60.0
    """Longest read, retries included; a second more for each megabyte asked for [s]."""

    revalidate_s: float = 30.0
    """Age at which what is known of an open file is compared with the NameNode again [s]."""

    open_files: int = 256
    """Files whose block lists are kept."""

    part_bytes: int = 8 * 1024 * 1024
    """A longer range is read in parts of this size, several at a time [bytes]."""

    reads_in_flight: int = 32
    """Parts and ranges that one process fetches at the same time; the most that any of its stores
    asks for counts. On a link with a round trip of 30 ms, 32 reads of 64 KiB are 70 MB/s."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if isinstance(value, int | float) and not value > 0:
                raise ConfigError(f"hdfs.{option.name}={value} must be above 0")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> HdfsConfig:
        """Read what Hadoop's tools read, once.

        ``HADOOP_CONF_DIR`` (or ``$HADOOP_HOME/etc/hadoop``), ``HADOOP_USER_NAME``,
        ``KRB5CCNAME``, ``HEADRACE_KERBEROS_PRINCIPAL``, ``HEADRACE_KERBEROS_KEYTAB``, and
        ``WAIT_VARIABLES``.

        Raises:
            ConfigError: a named directory is not there, its files are not XML, or a wait is no
                number.
        """
        directory = _directory(environment)
        return cls(
            properties=read_site_files(directory, environment) if directory else {},
            directory=str(directory) if directory else None,
            user=environment.get("HADOOP_USER_NAME") or _own_name(),
            kerberos_principal=environment.get("HEADRACE_KERBEROS_PRINCIPAL"),
            kerberos_keytab=environment.get("HEADRACE_KERBEROS_KEYTAB"),
            kerberos_cache=environment.get("KRB5CCNAME"),
            **read_waits(WAIT_VARIABLES, environment),
        )


def _own_name() -> str:
    """Return who this process runs as; in containers a number may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _directory(environment: Mapping[str, str]) -> Path | None:
    named = environment.get("HADOOP_CONF_DIR")
    if named:
        if not Path(named).is_dir():
            raise ConfigError(
                f"HADOOP_CONF_DIR={named} is no directory; name the one that holds core-site.xml"
            )
        return Path(named)
    home = environment.get("HADOOP_HOME")
    below = Path(home, "etc/hadoop") if home else None
    return below if below is not None and below.is_dir() else None
