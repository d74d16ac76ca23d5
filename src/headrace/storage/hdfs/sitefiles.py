"""Reads Hadoop's site files: XML properties, later files winning, ``${…}`` replaced."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from headrace.core.errors import ConfigError

SITE_FILES = ("core-site.xml", "hdfs-site.xml")

_VARIABLE = re.compile(r"\$\{([^}$\s]+)\}")

_DEEPEST = 20
"""Replacements inside replacements that Hadoop follows, too."""


def read_site_files(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a configuration directory; missing files hold none.

    Raises:
        ConfigError: a file is not XML or cannot be read.
    """
    properties: dict[str, str] = {}
    for name in SITE_FILES:
        if (directory / name).is_file():
            properties.update(_properties(directory / name))
    return {name: _expand(value, properties, environment) for name, value in properties.items()}


def _properties(path: Path) -> Iterator[tuple[str, str]]:
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise ConfigError(
            f"{path} cannot be read as a Hadoop site file: {error}; mend it, or let "
            "HADOOP_CONF_DIR name another directory"
        ) from error
    for element in root.iter("property"):
        name, value = element.findtext("name"), element.findtext("value")
        if name and value is not None:
            yield name.strip(), value.strip()


def _expand(value: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> str:
    def look_up(match: re.Match[str]) -> str:
        name = match.group(1)
        known = environment if name.startswith("env.") else properties
        return known.get(name.removeprefix("env."), match.group(0))

    for _ in range(_DEEPEST):
        expanded = _VARIABLE.sub(look_up, value)
        if expanded == value:
            break
        value = expanded
    return value
