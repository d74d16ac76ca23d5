"""Draws labelled jobs: every size and detail of traces, with one cause injected, two, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bench.diagnosis.setting import Setting, Spell
from headrace.analysis.causes import Cause

Injection = Callable[[np.random.Generator, Setting], Setting]


def healthy(seed: int, *, least_hosts: int = 1) -> Setting:
    """Return a job that has more of everything than it needs, by a factor of 1.4 to 4."""
    rng = np.random.default_rng([seed, 1])
    hosts = int(rng.choice([size for size in (1, 2, 4, 8) if size >= least_hosts]))
    ranks_per_host = int(rng.choice([1, 2]))
    workers = int(rng.choice([1, 2, 4]))
    sample_bytes = float(10 ** rng.uniform(4.5, 6.7))
    setting = Setting(
        seed=seed,
        hosts=hosts,
        ranks_per_host=ranks_per_host,
        steps=int(rng.integers(50, 90)) * max(2, workers),
        step_s=float(10 ** rng.uniform(-0.7, 0.7)),
        batch=int(rng.choice([2, 3, 4])),
        workers=workers,
        sample_bytes=sample_bytes,
        size_spread=float(rng.uniform(0.05, 0.8)),
        request_bytes=float(sample_bytes * 10 ** rng.uniform(-0.5, 0.6)),
        jitter=float(rng.uniform(0.05, 0.4)),
        disks=int(rng.choice([1, 4, 12])),
        seek_s=float(rng.choice([0.0, 0.0, 0.002, 0.008])),
        lookups=int(rng.choice([1, 1, 2, 4])),
        parts=bool(rng.random() < 0.85),
        barriers=bool(rng.random() < 0.5),
        queues=bool(rng.random() < 0.3),
    )
    setting = replace(
        setting,
        queue=setting.workers + int(rng.integers(1, 5)),
        requests=not setting.parts or bool(rng.random() < 0.7),
    )
    return _with_room(rng, setting)


def _with_room(rng: np.random.Generator, setting: Setting) -> Setting:
    """Give a job hardware for ``1.4`` to ``4`` times what it needs."""
    room = rng.uniform(1.4, 4.0, 5)
    per_sample_s = setting.workers * setting.step_s / setting.batch
    """Time that a worker has for a sample."""

    parts = rng.dirichlet([1.0, 1.0, 2.0]) * per_sample_s / room[0]
    samples_per_s = setting.ranks * setting.batch / setting.step_s
    requests = np.ceil(setting.sample_bytes / setting.request_bytes)
    trip_s = min(parts[0] / setting.lookups, parts[1] / requests * 0.7, 0.05)
    transfer_s = parts[1] * 0.3
    disk_rate = max(
        setting.sample_bytes / transfer_s,
        room[1] * samples_per_s * setting.sample_bytes / setting.disks * 1.3,
    )
    cores = setting.ranks_per_host * setting.batch / setting.step_s * parts[2] * room[2]
    return replace(
        setting,
        round_trip_s=float(trip_s * 0.8),
        lookup_s=float(min(0.1 * trip_s, 1 / (samples_per_s * setting.lookups * room[3] * 1.5))),
        disk_bytes_per_s=float(disk_rate),
        seek_s=min(setting.seek_s, 0.2 * setting.sample_bytes / requests / float(disk_rate)),
        link_bytes_per_s=float(samples_per_s * setting.sample_bytes * room[4] * 2),
        transform_s=float(parts[2] * 0.8),
        cores=max(int(np.ceil(cores)), setting.ranks_per_host * min(setting.workers, 2)),
    )


def labelled(seed: int, causes: tuple[Cause, ...]) -> Setting:
    """Return a healthy job with causes injected."""
    rng = np.random.default_rng([seed, 2])
    setting = healthy(seed, least_hosts=max((LEAST_HOSTS.get(one, 1) for one in causes), default=1))
    for cause in causes:
        setting = INJECTIONS[cause](rng, setting)
    return setting


def _span_s(setting: Setting) -> float:
    return setting.steps * setting.step_s


def _samples_per_s(setting: Setting) -> float:
    return setting.ranks * setting.batch / setting.step_s


def _lacking(rng: np.random.Generator) -> float:
    """Return how much of what is needed there is."""
    return float(rng.uniform(0.35, 0.85))


def _transform_bound(rng: np.random.Generator, setting: Setting) -> Setting:
    """Too few cores, or slow transforms in few workers, or others on the cores for a time."""
    way = rng.integers(3)
    per_sample_s = setting.workers * setting.step_s / setting.batch
    if way == 0:
        return replace(setting, parts=True, transform_s=per_sample_s / _lacking(rng), cores=64)
    needed = _samples_per_s(setting) / setting.hosts * setting.transform_s
    if way == 1:
        cores = max(1, int(needed * _lacking(rng)))
        slower = max(1.0, 1.1 * cores / (needed * 0.85))
        transform_s = setting.transform_s * slower
        return replace(setting, parts=True, cores=cores, transform_s=transform_s)
    left = min(0.5, _lacking(rng) * needed / setting.cores)
    return replace(setting, parts=True, on_cores=_spells(rng, setting, left))


def _spells(
    rng: np.random.Generator, setting: Setting, left: float, *, later_s: float = 0.0
) -> tuple[Spell, ...]:
    """Return one to three spells over 15 to 45 % of the job's time, not at its start."""
    span_s, count = _span_s(setting), int(rng.integers(1, 4))
    lengths = rng.dirichlet([4.0] * count) * rng.uniform(0.15, 0.45) * span_s
    free_s = span_s * 0.8 - lengths.sum()
    gaps = rng.dirichlet([2.0] * (count + 1)) * free_s
    begins = 0.2 * span_s + later_s + np.cumsum(gaps[:-1]) + np.append(0.0, np.cumsum(lengths[:-1]))
    return tuple(
        Spell(begin_s=float(begin), end_s=float(begin + length), left=left)
        for begin, length in zip(begins, lengths, strict=True)
    )


def _bandwidth_bound(rng: np.random.Generator, setting: Setting) -> Setting:
    """Disks, or the link, give less than the job takes."""
    rate = _samples_per_s(setting) * setting.sample_bytes * _lacking(rng)
    if rng.random() < 0.5:
        return replace(setting, link_bytes_per_s=rate)
    return replace(setting, disk_bytes_per_s=rate / setting.disks, seek_s=0.0)


def _metadata_bound(rng: np.random.Generator, setting: Setting) -> Setting:
    """A metadata server that is too slow for all, or many questions about each small file."""
    if rng.random() < 0.5:
        rate = _samples_per_s(setting) * setting.lookups * _lacking(rng)
        return replace(setting, lookup_s=1 / rate)
    lookups = int(rng.integers(3, 9))
    per_sample_s = setting.workers * setting.step_s / setting.batch
    lookup_s = per_sample_s / _lacking(rng) / lookups
    return replace(
        setting,
        lookups=lookups,
        round_trip_s=0.3 * setting.round_trip_s,
        lookup_s=min(lookup_s, 1 / (_samples_per_s(setting) * lookups * 0.6)),
    )


def _rtt_bound(rng: np.random.Generator, setting: Setting) -> Setting:
    """Storage far away, read in small pieces by few workers."""
    trip_s = float(rng.uniform(0.02, 0.15))
    request_bytes = float(10 ** rng.uniform(3.8, 4.8))
    per_sample_s = setting.workers * setting.step_s / setting.batch
    requests = int(np.clip(per_sample_s / trip_s / _lacking(rng), 1, 8))
    trip_s = max(trip_s, per_sample_s / _lacking(rng) / requests)
    return replace(
        setting,
        round_trip_s=trip_s,
        request_bytes=request_bytes,
        sample_bytes=request_bytes * (requests - 0.5),
        size_spread=min(setting.size_spread, 0.3),
        requests=True,
        lookups=1,
        lookup_s=min(setting.lookup_s, 1e-4),
        disk_bytes_per_s=1e9,
        seek_s=0.0,
        link_bytes_per_s=10e9,
    )


def _straggler(rng: np.random.Generator, setting: Setting) -> Setting:
    """One host whose cores, or whose reads, are several times slower."""
    per_sample_s = setting.workers * setting.step_s / setting.batch
    wanted_s = per_sample_s / _lacking(rng)
    if rng.random() < 0.6:
        return replace(setting, cores=64, slow_host=max(2.0, wanted_s / setting.transform_s))
    requests = np.ceil(setting.sample_bytes / setting.request_bytes)
    read_s = requests * setting.round_trip_s + setting.sample_bytes / setting.disk_bytes_per_s
    return replace(setting, slow_link=max(2.0, wanted_s / read_s))


def _cold_start(rng: np.random.Generator, setting: Setting) -> Setting:
    """A cache that has to fill in the first epoch, or first reads that are slow."""
    rate = _samples_per_s(setting)
    if rng.random() < 0.5:
        epoch_steps = int(setting.steps * rng.uniform(0.15, 0.35))
        dataset = epoch_steps * setting.batch
        needed = rate * setting.sample_bytes * _lacking(rng)
        return replace(
            setting,
            dataset=dataset,
            cache_samples=int(dataset * setting.ranks * 1.1),
            disk_bytes_per_s=needed / setting.disks,
            seek_s=0.0,
        )
    per_sample_s = setting.workers * setting.step_s / setting.batch
    requests = np.ceil(setting.sample_bytes / setting.request_bytes)
    slow = max(3.0, per_sample_s / _lacking(rng) / (requests * setting.round_trip_s))
    nbytes = setting.sample_bytes * setting.batch * setting.ranks * setting.steps
    return replace(setting, first_reads=slow, first_bytes=nbytes * rng.uniform(0.1, 0.3))


def _thrash(rng: np.random.Generator, setting: Setting) -> Setting:
    """A cache that holds all; then others read through it, or the job goes through more.

    That a cache holds something a trace shows by its first reads, or by saying so.
    """
    is_warm = setting.cache_samples == 0
    epoch_steps = int(setting.steps * rng.uniform(0.08, 0.15))
    dataset = epoch_steps * setting.batch
    needed = _samples_per_s(setting) * setting.sample_bytes * _lacking(rng)
    setting = replace(
        setting,
        requests=True,
        is_warm=is_warm,
        tells_cached=is_warm or bool(rng.random() < 0.3),
        dataset=dataset,
        cache_samples=int(dataset * setting.ranks * 1.15),
        disk_bytes_per_s=needed / setting.disks,
        seek_s=0.0,
        steps=max(setting.steps, 140),
    )
    if rng.random() < 0.6:
        left, later_s = float(rng.uniform(0.0, 0.3)), 0.0 if is_warm else 0.8 * _span_s(setting)
        return replace(setting, scans=_spells(rng, setting, left, later_s=later_s))
    return replace(setting, grows_at=int(setting.steps * rng.uniform(0.45, 0.6)), grown=2)


def _congestion(rng: np.random.Generator, setting: Setting) -> Setting:
    """Others on the link, or on the disks, for a time."""
    rate = _samples_per_s(setting) * setting.sample_bytes
    is_cold = setting.cache_samples > 0 or setting.first_bytes > 0
    later_s = 0.8 * _span_s(setting) if is_cold else 0.0
    if is_cold or rng.random() < 0.5:
        left = _lacking(rng) * rate / setting.link_bytes_per_s
        spells = _spells(rng, setting, left, later_s=later_s)
        return replace(setting, on_link=spells, tells_cached=setting.cache_samples > 0)
    left = _lacking(rng) * rate / (setting.disk_bytes_per_s * setting.disks)
    return replace(setting, on_disks=_spells(rng, setting, left))


def _storm(rng: np.random.Generator, setting: Setting) -> Setting:
    """All ranks read a large checkpoint at the start, or save one now and then."""
    total = setting.disk_bytes_per_s * setting.disks
    share_s = _span_s(setting) * rng.uniform(0.05, 0.3)
    reads = bool(rng.random() < 0.5)
    saves = 0 if reads else int(rng.integers(2, 6))
    nbytes = min(total, setting.link_bytes_per_s) * share_s / max(saves, 1) / setting.ranks
    return replace(
        setting,
        checkpoint_bytes=nbytes,
        reads_checkpoint=reads,
        save_every=setting.steps // (saves + 1) if saves else 0,
        request_bytes=max(setting.request_bytes, nbytes / 50),
    )


def _none(rng: np.random.Generator, setting: Setting) -> Setting:
    """Others who leave enough, or small checkpoints."""
    way = rng.integers(4)
    if way == 0:
        return replace(setting, on_disks=_spells(rng, setting, 0.9), on_cores=())
    if way == 1:
        total = min(setting.disk_bytes_per_s * setting.disks, setting.link_bytes_per_s)
        nbytes = 0.003 * total * _span_s(setting) / setting.ranks
        return replace(setting, checkpoint_bytes=nbytes, reads_checkpoint=True)
    return setting


COMBINATIONS: tuple[tuple[Cause, Cause], ...] = (
    (Cause.TRANSFORM_BOUND, Cause.CHECKPOINT_STORM),
    (Cause.STORAGE_BANDWIDTH_BOUND, Cause.CHECKPOINT_STORM),
    (Cause.COLD_START, Cause.CONGESTION),
    (Cause.COLD_START, Cause.THRASH),
    (Cause.METADATA_BOUND, Cause.CHECKPOINT_STORM),
)
"""Of causes that go together without one hiding the other."""

LEAST_HOSTS: Mapping[Cause, int] = {Cause.STRAGGLER: 2, Cause.CHECKPOINT_STORM: 4}
"""Without which a cause cannot be."""

INJECTIONS: Mapping[Cause, Injection] = {
    Cause.TRANSFORM_BOUND: _transform_bound,
    Cause.STORAGE_BANDWIDTH_BOUND: _bandwidth_bound,
    Cause.METADATA_BOUND: _metadata_bound,
    Cause.RTT_BOUND: _rtt_bound,
    Cause.STRAGGLER: _straggler,
    Cause.COLD_START: _cold_start,
    Cause.THRASH: _thrash,
    Cause.CONGESTION: _congestion,
    Cause.CHECKPOINT_STORM: _storm,
    Cause.NONE: _none,
}
