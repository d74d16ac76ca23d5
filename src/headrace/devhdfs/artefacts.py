"""Finds Java and Hadoop's jars; fetches the jars once, checked against their digests."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from headrace.core.errors import ConfigError, CorruptDataError, DeadlineError, RemoteError
from headrace.devhdfs.release import HADOOP_VERSION, JARS, JAVA_VERSION, Jar, pom

FETCH_TIMEOUT_S = 900.0
"""Longest that Maven may take for the download [s]."""

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
_DISTRIBUTION = ("common", "common/lib", "hdfs", "hdfs/lib")
"""Where a Hadoop distribution keeps the jars of HDFS, below ``share/hadoop``."""

Say = Callable[[str], None]
"""Told what takes long, one line each."""


def silent(_: str) -> None:
    """Say nothing."""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the Java to run Hadoop with: that of ``JAVA_HOME``, else the one on the path.

    Raises:
        ConfigError: there is none, or it is too old.
    """
    home = environment.get("JAVA_HOME")
    named = f"{home}/bin/java" if home else "java"
    found = shutil.which(named, path=environment.get("PATH"))
    if found is None:
        raise ConfigError(
            f"no Java at {named}; install Java {JAVA_VERSION} or newer (such as the package "
            f"openjdk-{JAVA_VERSION}-jre-headless), or point JAVA_HOME at it"
        )
    _require_recent(found)
    return Path(found)


def _require_recent(java: str) -> None:
    try:
        told = subprocess.run(
            [java, "-version"], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"{java} does not tell its version ({error}); point JAVA_HOME at another Java"
        ) from error
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    if version is None or int(version.group(1)) < JAVA_VERSION:
        said = (told.stderr or told.stdout).strip().partition("\n")[0]
        raise ConfigError(
            f"{java} says {said!r}, but Hadoop {HADOOP_VERSION} needs Java {JAVA_VERSION} or "
            "newer; install it, or point JAVA_HOME at it"
        )


def find_classpath(
    jars: Path | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    say: Say = silent,
) -> str:
    """Return the class path of Hadoop: ``jars``, else ``HADOOP_HOME``, else the fetched ones.

    Args:
        jars: Directory of jars to use instead.
        environment: Where ``HADOOP_HOME`` and ``XDG_CACHE_HOME`` are looked up.
        say: Told before a download.

    Raises:
        ConfigError: a directory holds no jars, or Maven is missing.
        CorruptDataError: a jar is not the one that is pinned.
        RemoteError: the download failed.
    """
    if jars is not None:
        return _wildcards([jars], said_by="--jars")
    if home := environment.get("HADOOP_HOME"):
        share = Path(home, "share", "hadoop")
        return _wildcards([share / part for part in _DISTRIBUTION], said_by="HADOOP_HOME")
    return _wildcards([fetched_jars(environment=environment, say=say)], said_by="the cache")


def _wildcards(folders: list[Path], *, said_by: str) -> str:
    for folder in folders:
        if not any(folder.glob("*.jar")):
            raise ConfigError(
                f"no jars in {folder}, which {said_by} names; name a directory of Hadoop's jars, "
                "or leave it out and they are fetched"
            )
    return os.pathsep.join(f"{folder.absolute()}/*" for folder in folders)


def fetched_jars(*, environment: Mapping[str, str] = os.environ, say: Say = silent) -> Path:
    """Return the directory of the pinned jars, downloading them when it is not complete.

    They are built aside and renamed, so that two processes, or one that was killed, never
    leave half of them.
    """
    target = cache_directory(environment) / f"hadoop-{HADOOP_VERSION}"
    if not wrong_jars(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        say(f"fetching Hadoop {HADOOP_VERSION} with Maven into {target} (108 MB, once)")
        _fetch(aside, environment)
        _publish(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where headrace keeps what it has downloaded."""
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~"), ".cache")
    return Path(base).expanduser() / "headrace"


def wrong_jars(folder: Path) -> list[Jar]:
    """Return the pinned jars that are missing from ``folder`` or have another content."""
    return [jar for jar in JARS if _sha256(folder / jar.file_name) != jar.sha256]


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _fetch(folder: Path, environment: Mapping[str, str]) -> None:
    maven = shutil.which("mvn", path=environment.get("PATH"))
    if maven is None:
        raise ConfigError(
            f"no mvn on the path to fetch Hadoop {HADOOP_VERSION} with; install Maven, or name "
            "jars that are here already: --jars DIR, or HADOOP_HOME of a Hadoop distribution"
        )
    (folder / "pom.xml").write_text(pom())
    _run_maven([maven, "-q", "-B", "-f", "pom.xml", _COPY, "-DoutputDirectory=."], folder)
    if wrong := wrong_jars(folder):
        raise CorruptDataError(_not_as_pinned(wrong[0], folder))


def _run_maven(argv: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            argv,
            check=False,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise DeadlineError(
            f"mvn did not fetch Hadoop {HADOOP_VERSION} within {FETCH_TIMEOUT_S:g} s; check the "
            "network and call again (what has arrived is kept by Maven)"
        ) from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        reason = lines[0] if lines else f"exit code {done.returncode}"
        raise RemoteError(
            f"mvn could not fetch Hadoop {HADOOP_VERSION}: {reason.strip()}; check the network "
            "and Maven's settings.xml, or name jars that are here already with --jars DIR"
        )


def _not_as_pinned(jar: Jar, folder: Path) -> str:
    size = (folder / jar.file_name).stat().st_size if (folder / jar.file_name).exists() else 0
    return (
        f"{jar.file_name} as Maven delivered it has {size:,} bytes and SHA-256 "
        f"{_sha256(folder / jar.file_name)[:12] or 'none'}, not {jar.sha256[:12]}; remove "
        f"{jar.repository_path} from Maven's local repository (~/.m2/repository) and call again"
    )


def _publish(aside: Path, target: Path) -> None:
    """Put the finished directory in place; another process may have been quicker."""
    broken = aside.with_name(f"{aside.name}-broken")
    if wrong_jars(target):
        with suppress(FileNotFoundError):
            target.rename(broken)
    with suppress(OSError):
        aside.rename(target)
    shutil.rmtree(broken, ignore_errors=True)
    if wrong := wrong_jars(target):
        raise CorruptDataError(_not_as_pinned(wrong[0], target))
