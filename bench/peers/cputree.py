"""CPU time of a process and all below it, to the nanosecond, as seen from outside."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class TreeCpu:
    """CPU time since processes began [s]."""

    trainer_s: float
    """Of the training process and those below it, but for the others."""

    other_s: float
    """Of the others and those below them."""

    def __sub__(self, earlier: TreeCpu) -> TreeCpu:
        return TreeCpu(self.trainer_s - earlier.trainer_s, self.other_s - earlier.other_s)


def tree_cpu(trainer: int, others: Iterable[int]) -> TreeCpu:
    """Return what the processes that live now have used.

    Args:
        trainer: Process id of the training process.
        others: Of processes that work for it elsewhere, so to say; they may be its children.
    """
    elsewhere = {pid for other in others for pid in family(other)}
    here = set(family(trainer)) - elsewhere
    return TreeCpu(sum(map(cpu_s, here)), sum(map(cpu_s, elsewhere)))


def family(pid: int) -> list[int]:
    """Return a process and all below it; none if it has ended."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def cpu_s(pid: int) -> float:
    """Return the CPU time of one process with all its threads, ended ones too [s]; 0 if it ended.

    This is the clock that clock_getcpuclockid(3) tells: Linux makes its number of the process id.
    """
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0
