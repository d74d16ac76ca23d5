"""Programs that stand in for Java and Maven, as shell scripts."""

from __future__ import annotations

from pathlib import Path

MODERN = "17.0.15"


def program(folder: Path, name: str, script: str) -> Path:
    """Write an executable shell script and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def java(home: Path, *, version: str = MODERN, then: str = "exit 0") -> Path:
    """Write a Java that tells its version and, asked to run anything, does ``then``."""
    told = f"echo 'openjdk version \"{version}\" 2025-04-15' >&2; exit 0"
    return program(home / "bin", "java", f'[ "$1" = -version ] && {{ {told}; }}\n{then}')
