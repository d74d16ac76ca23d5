"""The machinery that moves bytes: tiers, links, cores and the cache, one quantum at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.sim.cache import Cache
from headrace.sim.chance import EXTENTS, Scatter
from headrace.sim.episode import Restart
from headrace.sim.estate import Abilities, Estate
from headrace.sim.fleet import Fleet
from headrace.sim.fluid import share
from headrace.sim.meter import Flow, Meter
from headrace.sim.paths import Paths
from headrace.sim.policies import Omniscient, Truth
from headrace.sim.quotas import Quotas
from headrace.sim.waiting import Waiting

Floats = npt.NDArray[np.float64]

EXTENT_S = 2.0
"""How long a prefetcher reads from neighbours that are cached, or not, together [s]."""

CACHE_S = 10.0
"""How often the cache's content is reckoned anew [s]."""

_NEIGHBOURHOODS = 24.0
_NEIGHBOURHOODS_UNDER_SCAN = 3.0
"""Independent neighbourhoods that are read from in that time: reclaim under a scan comes in waves,
so that whole stretches are there or gone."""


class Plant:
    """Moves the bytes of all jobs. Arrays are ``[jobs]``."""

    def __init__(
        self,
        estate: Estate,
        fleet: Fleet,
        paths: Paths,
        quotas: Quotas,
        *,
        abilities: Abilities,
        oracle: Omniscient | None,
        seed: int,
        quantum_s: float,
    ) -> None:
        jobs = fleet.jobs
        self._fleet, self._paths, self._quotas, self._oracle = fleet, paths, quotas, oracle
        self._quantum_s = quantum_s
        self._clairvoyant = abilities.clairvoyant_cache
        self._streams = np.array([float(job.streams) for job in jobs])
        self._under_way = np.array([job.streams * job.request_bytes for job in jobs])
        self._batch_bytes = np.array(
            [batches.epoch_bytes / batches.steps_per_epoch for batches in fleet.batches]
        )
        self._step_s = np.array([job.step_time_s for job in jobs])
        self.meter = Meter(self._under_way)
        self.cache = _cache(estate, fleet, abilities)
        self.read_bytes = np.zeros(len(paths.tiers))
        """Read from each tier so far [bytes]."""
        self._scatter = Scatter(len(jobs), seed=seed, purpose=EXTENTS)
        self._cold = np.zeros((2, len(jobs)))
        self._cold[1] = 1.0
        self._waiting = _waiting(estate)
        self._nobody = np.zeros(len(jobs), dtype=bool)
        self._steady = np.ones(len(jobs))
        self._since_cached = np.zeros(len(jobs))
        self._scanned = 0.0
        self._quanta = 0
        self.hit_rates = self.cache.hit_rates()

    def chill(self, job: int, restart: Restart) -> None:
        """Make a job's next reads slow, and cold."""
        self._cold[:, job] = restart.latency_factor - 1.0, restart.cold_bytes
        self.cache.forget(job, restart.cache_lost)

    def settle(self, scan_bytes_per_s: float) -> None:
        """Reckon hit rates for the coming quantum, when that is due."""
        dt = self._quantum_s
        self._scanned += scan_bytes_per_s * dt
        if self._quanta % max(1, round(CACHE_S / dt)) == 0:
            self.cache.advance(self._since_cached, scanned=self._scanned)
            self._since_cached[:] = 0.0
            self._scanned = 0.0
        if self._quanta % max(1, round(EXTENT_S / dt)) == 0:
            self._look_up(under_scan=scan_bytes_per_s > 0 and not self._clairvoyant)
        self._quanta += 1

    def move(self, now: float, capacity: Floats) -> None:
        """Move bytes for one quantum; ``capacity`` is what the jobs may use of each resource."""
        fleet, paths, dt = self._fleet, self._paths, self._quantum_s
        room = np.maximum(fleet.limit - fleet.fetched, 0.0)
        served = paths.service_s * self._coldness()
        part = np.minimum(np.maximum((now + dt - fleet.open_from) / dt, 0.0), 1.0)
        caps = np.minimum(room / dt, self._under_way / served * part)
        throttled = self._nobody
        if self._quotas.limited:
            most = self._quotas.most(dt, paths.read)
            throttled = most < caps
            caps = np.minimum(caps, most)
        if self._oracle is not None:
            caps = np.minimum(
                caps, self._oracle.allot(self._truth(now, room * (part > 0), capacity))
            )
        shares = share(caps, usage=paths.usage, capacity=capacity, weights=self._streams)
        crowd = paths.read @ self._waits(shares.rates, capacity)
        flow = Flow(
            shares=shares,
            dt=dt,
            room=room,
            throttled=throttled,
            served_s=served,
            crowd_s=crowd,
            hit_rates=self.hit_rates,
            cores=capacity.size - 1,
        )
        self._account(flow)

    def _account(self, flow: Flow) -> None:
        moved = flow.shares.rates * flow.dt
        self._fleet.fetched += moved
        self._since_cached += moved
        self.read_bytes += moved @ self._paths.read
        if self._quotas.limited:
            self._quotas.spend(flow.dt, self._paths.read * moved[:, None])
        self.meter.add(flow)

    def _waits(self, rates: Floats, capacity: Floats) -> Floats:
        """Return how long a read waits for each tier's devices [s], ``[tiers]``."""
        idle = (capacity - rates @ self._paths.usage) / self._paths.capacity
        return self._waiting.at(1.0 - idle[:-1])

    def _look_up(self, *, under_scan: bool) -> None:
        usual = self.cache.hit_rates()
        places = _NEIGHBOURHOODS_UNDER_SCAN if under_scan else _NEIGHBOURHOODS
        spread = np.sqrt(usual * (1.0 - usual) / places)
        self.hit_rates = np.clip(usual + spread * self._scatter.draw(), 0.0, 1.0)
        self._paths.refresh(self.hit_rates)

    def _coldness(self) -> Floats:
        """Return how much longer than usual each job's reads are served, as factors."""
        extra, lasts = self._cold
        if not extra.any():
            return self._steady
        since = self._fleet.fetched - self._fleet.started_at_bytes
        left = np.clip(1.0 - since / lasts, 0.0, 1.0)
        extra[left <= 0.0] = 0.0
        factors: Floats = 1.0 + extra * left
        return factors

    def _truth(self, now: float, room: Floats, capacity: Floats) -> Truth:
        fleet = self._fleet
        return Truth(
            now=now,
            quantum_s=self._quantum_s,
            missing_bytes=room,
            short_bytes=np.where(room > 0, np.maximum(fleet.needed - fleet.fetched, 0.0), 0.0),
            asked_at_s=fleet.asked,
            batch_bytes=self._batch_bytes,
            step_time_s=self._step_s,
            read=self._paths.read,
            usage=self._paths.usage,
            capacity=capacity,
            tiers=self._paths.tiers,
        )


def _cache(estate: Estate, fleet: Fleet, abilities: Abilities) -> Cache:
    jobs, batches = fleet.jobs, fleet.batches
    return Cache(
        room=estate.cache_bytes,
        epoch_bytes=np.array([one.epoch_bytes for one in batches]),
        epoch_s=np.array(
            [one.steps_per_epoch * job.step_time_s for one, job in zip(batches, jobs, strict=True)]
        ),
        warm=np.array([job.warm for job in jobs]),
        uses=np.array([job.cached for job in jobs]),
        clairvoyant=abilities.clairvoyant_cache,
    )


def _waiting(estate: Estate) -> Waiting:
    """Return the queues before the tiers' devices, for reads of nominal size."""
    carriers = estate.tiers.values()
    nominal = estate.nominal_request_bytes
    return Waiting(
        np.array([carrier.service_s(nominal) for carrier in carriers]),
        np.array([float(carrier.devices) for carrier in carriers]),
    )
