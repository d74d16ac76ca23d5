"""The least time in which a checkpoint can reach all hosts, by the rates of links. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What has to cross which links.

    Every byte of the checkpoint that one rank wants crosses once, what all ranks want once to
    each host. It leaves the DataNodes by all their links at once, at best, and enters each host
    by its own.
    """

    own_bytes: int
    """Of which each is wanted by one rank."""

    shared_bytes: int
    """That every rank wants."""

    hosts: int
    datanodes: int
    datanode_bytes_per_s: float
    host_bytes_per_s: float

    @property
    def crossing_bytes(self) -> int:
        """Of all hosts together."""
        return self.own_bytes + self.hosts * self.shared_bytes

    @property
    def seconds(self) -> float:
        """Of the narrower of both sides [s]."""
        out_s = self.crossing_bytes / (self.datanodes * self.datanode_bytes_per_s)
        in_s = (self.own_bytes / self.hosts + self.shared_bytes) / self.host_bytes_per_s
        return max(out_s, in_s)


FORMULA = (
    "max((own + hosts x shared) / all DataNodes' links, (own / hosts + shared) / a host's link)"
)
