"""Who is compared, and what each is able to do: nothing about a contender is implied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.core.errors import CallerError
from headrace.core.keys import key_hint
from headrace.policy.reservation.arbiter import Arbiter
from headrace.policy.reservation.limits import ReservationLimits
from headrace.sim.estate import HEADRACE, PLAIN, Abilities
from headrace.sim.policies import Omniscient, Policy
from headrace.sim.rivals.aimd import Aimd
from headrace.sim.rivals.oracle import Oracle
from headrace.sim.rivals.published import Published
from headrace.sim.rivals.static import Needs, StaticQuotas
from headrace.sim.rivals.watched import Watched


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What a policy may be made from."""

    needs: Needs
    """Mean needs of all jobs, for those that set quotas from them."""

    limits: ReservationLimits
    """For the arbiter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contender:
    """A policy with the software that it governs."""

    name: str
    title: str
    abilities: Abilities
    make: Callable[[Given], Policy | Omniscient]


def _arbiter(given: Given) -> Policy:
    return Arbiter(given.limits)


def _reactive(given: Given) -> Policy:
    return Arbiter(replace(given.limits, predictive=False))


def _static(given: Given) -> Policy:
    return StaticQuotas(given.needs)


BASELINE = "static"
OURS = "predictive"
BOUND = "oracle"
WATCHED = "watched"

_ALL = (
    Contender(
        name=BASELINE,
        title="static quotas",
        abilities=PLAIN,
        make=_static,
    ),
    Contender(name="aimd", title="AIMD", abilities=PLAIN, make=lambda _: Aimd()),
    Contender(
        name="published",
        title="PID and pool as published",
        abilities=replace(PLAIN, reordering=True),
        make=lambda given: Published(given.needs),
    ),
    Contender(name="reactive", title="headrace, reactive", abilities=HEADRACE, make=_reactive),
    Contender(name=OURS, title="headrace, predictive", abilities=HEADRACE, make=_arbiter),
    Contender(
        name=BOUND,
        title="oracle: max-min, true needs",
        abilities=HEADRACE,
        make=lambda _: Oracle(),
    ),
)
"""What the benchmark compares."""

_ABLATIONS = (
    Contender(
        name="no-cache",
        title="predictive, page cache",
        abilities=replace(HEADRACE, clairvoyant_cache=False),
        make=_arbiter,
    ),
    Contender(
        name="no-early",
        title="predictive, prefetch from the first step",
        abilities=replace(HEADRACE, early_prefetch=False),
        make=_arbiter,
    ),
    Contender(
        name="bandwidth-only",
        title="predictive, abilities as published",
        abilities=replace(PLAIN, reordering=True),
        make=_arbiter,
    ),
    Contender(
        name="static-able",
        title="static quotas, abilities of headrace",
        abilities=replace(HEADRACE, announces_bursts=False),
        make=_static,
    ),
)
"""What each ability is worth: headrace without it, and without its arbiter."""

_WATCHED = Contender(
    name=WATCHED,
    title="static quotas, watched by the arbiter",
    abilities=PLAIN,
    make=lambda given: Watched(_static(given), _arbiter(given)),
)
"""Whose diagnoses are held against what was injected."""

CONTENDERS: dict[str, Contender] = {one.name: one for one in _ALL}
ABLATIONS: dict[str, Contender] = {one.name: one for one in _ABLATIONS}


def contender(name: str) -> Contender:
    """Return the contender of that name.

    Raises:
        CallerError: there is none; the message names the nearest.
    """
    known = CONTENDERS | ABLATIONS | {WATCHED: _WATCHED}
    if name not in known:
        raise CallerError(f"no policy {name!r}; {key_hint(name, list(known))}")
    return known[name]
