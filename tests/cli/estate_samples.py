"""An estate as a controller would describe it, for verbs that show one."""

from __future__ import annotations

from typing import Any

from headrace.wire.estate import (
    AgentJobView,
    AgentTierView,
    AgentView,
    ControllerView,
    Estate,
    JobView,
    JournalView,
    LedgerEntry,
    TierShare,
    TierView,
)

NOW = 1_800_000_000.0


def loan(job: str = "3f2a", entry: int = 7, **changes: Any) -> LedgerEntry:
    values: dict[str, Any] = {
        "entry": entry,
        "kind": "loan",
        "job": job,
        "tier": "hdd",
        "began_at": NOW - 30,
        "score": 34.0,
        "reason": "health 34 is below 60: its queue holds 1 of 8 batches",
        "loan": 3,
        "bytes_per_s": 120e6,
        "iterations": 3,
        "expires_at": NOW + 12,
        "expires_in_s": 12.0,
    }
    return LedgerEntry(**{**values, **changes})


def job(name: str, score: float, **changes: Any) -> JobView:
    level = next(
        word
        for least, word in ((60, "healthy"), (40, "tight"), (20, "danger"), (0, "critical"))
        if score >= least
    )
    values: dict[str, Any] = {
        "job": f"{name}-identifier",
        "title": name,
        "weight": 1.0,
        "world": 64,
        "hosts": 8,
        "hosts_reporting": 8,
        "score": score,
        "level": level,
        "mode": "none",
        "reason": "",
        "iteration": 1203,
        "step": 91203,
        "step_time_s": 1.25,
        "wait_s": 0.0,
        "queue_depth": 8.0,
        "queue_capacity": 8.0,
        "hit_rate": 0.5,
        "read_bytes_per_s": 300e6,
        "tiers": {
            "hdd": TierShare(
                asked_bytes_per_s=320e6,
                granted_bytes_per_s=300e6,
                used_bytes_per_s=280e6,
                reason="its part by weight",
            )
        },
    }
    return JobView(**{**values, **changes})


def agent(name: str, **changes: Any) -> AgentView:
    values: dict[str, Any] = {
        "agent": name,
        "address": f"http://{name}:7411",
        "hosts": (name,),
        "tiers": (
            AgentTierView(tier="hdd", media="hdd", bytes_per_s=600e6, used_bytes_per_s=412e6),
            AgentTierView(tier="ssd", media="ssd", bytes_per_s=3e9, used_bytes_per_s=1.2e9),
        ),
        "cpu_share": 0.42,
        "workers": 16,
        "transforming": True,
        "cache_hit_share": 0.873,
        "waiting": 120,
        "jobs": {
            "3f2a": AgentJobView(
                ordered={"hdd": 75e6}, enforced={"hdd": 75e6}, used={"hdd": 70e6}, waiting=12
            )
        },
        "silent": False,
        "age_s": 0.4,
    }
    return AgentView(**{**values, **changes})


def estate(jobs: int = 6, agents: int = 3, **changes: Any) -> Estate:
    """Return one with jobs in every state, the healthy ones repeated as often as it takes."""
    troubled = [
        job(
            "vision-language-40b",
            11,
            mode="congestion",
            reason="48 % of an I/O's time is spent queued while the link carries less than before",
            wait_s=2.31,
            queue_depth=0.0,
            loans=(loan(),),
        ),
        job("omni-large", 34, mode="thrash", reason="hit rate 0.21 ± 0.30", wait_s=0.41),
        job("text-small", 52, mode="cold-start", reason="iteration 3 of a new run", wait_s=0.03),
        job("video-7b", 55, mode="transform-bound", reason="decoding takes 94 %", wait_s=0.2),
    ]
    healthy = [job(f"text-{number}", 60 + number % 41) for number in range(max(jobs - 4, 0))]
    values: dict[str, Any] = {
        "at": NOW,
        "controller": ControllerView(
            boot="b",
            version="0.1.0",
            uptime_s=11_520.0,
            settling=False,
            journal=JournalView(path="/var/lib/headrace/controller.sqlite"),
            reports=120_000,
            refused=3,
        ),
        "tiers": (
            TierView(
                tier="hdd",
                media="hdd",
                bytes_per_s=2.4e9,
                effective_bytes_per_s=2.4e9,
                granted_bytes_per_s=2.1e9,
                lent_bytes_per_s=120e6,
                pool_bytes_per_s=360e6,
                used_bytes_per_s=1.7e9,
            ),
            TierView(
                tier="ssd",
                media="ssd",
                bytes_per_s=12e9,
                effective_bytes_per_s=12e9,
                granted_bytes_per_s=4e9,
                lent_bytes_per_s=0.0,
                pool_bytes_per_s=1.8e9,
                used_bytes_per_s=3.1e9,
            ),
        ),
        "jobs": tuple([*troubled, *healthy][:jobs]),
        "agents": tuple(agent(f"storage-{number}") for number in range(agents)),
    }
    return Estate(**{**values, **changes})
