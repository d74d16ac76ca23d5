"""Whatever comes in whatever order: no file below its own copies, no boost after its lease."""

from __future__ import annotations

from dataclasses import dataclass

from hotspot_store import Store, hot, stored
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.policy.hotspot.events import KeptLease, Planned, Released, Renewed, Restored

OWN = {"a": 3, "b": 1, "c": 60}


@dataclass(frozen=True)
class Step:
    """One thing that happens."""

    kind: str
    lease: str
    file: str
    number: int


STEPS = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(
            ["announce", "release", "renew", "away", "hang", "back", "restart", "run", "endanger"]
        ),
        lease=st.sampled_from(["l1", "l2", "l3"]),
        file=st.sampled_from(sorted(OWN)),
        number=st.integers(1, 200),
    ),
    max_size=40,
)


def take(store: Store, step: Step) -> Store:
    """Let a step happen; a restart makes a store with another planner."""
    match step.kind:
        case "announce" if step.lease not in store.planner.leases:
            files = (hot(step.file, readers=step.number * 5), hot("a", readers=step.number))
            wanted = files if step.file != "a" else files[:1]
            store.announce(step.lease, *wanted, lease_s=float(step.number))
        case "release":
            store.tell(Released(lease=step.lease))
        case "renew":
            store.tell(Renewed(lease=step.lease, lease_s=float(step.number)))
        case "away" | "hang" | "back":
            store.away, store.hung = step.kind != "back", step.kind == "hang"
        case "endanger":
            store.endangered = step.number % 3
        case "restart":
            return restart(store)
        case _:
            store.run(step.number % 20)
    return store


def restart(store: Store) -> Store:
    """Return the store with a planner that knows what was kept."""
    plans = {one.lease: one for one in store.done if isinstance(one, Planned)}
    leases = tuple(
        KeptLease(
            lease=name,
            files=lease.files,
            wanted=plans[name].wanted,
            eta_s=lease.hot_at - store.now,
            lease_s=lease.ends_at - store.now,
        )
        for name, lease in store.planner.leases.items()
        if lease.wanted is not None
    )
    again = Store(
        asked=store.asked, live=store.live, kept=dict(store.kept), away=store.away, now=9000.0
    )
    again.done += [one for one in store.done if isinstance(one, Planned)]
    again.tell(Restored(leases=leases, files=tuple(store.kept.values())))
    return again


def check(store: Store) -> None:
    """Look whether every file has at least its own copies, and no more than it may have."""
    for path, own in OWN.items():
        assert own <= store.asked[stored(path)] <= max(own, 50)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(STEPS)
def test_no_boost_outlives_its_lease_and_no_file_has_less_than_its_own(steps: list[Step]) -> None:
    """Seed: derandomized. The store may be away, or hang and do later what it was asked for, and
    the planner may be restarted at any time; then nothing of before is under way any more."""
    store = Store()
    for path, copies in OWN.items():
        store.add(path, copies)
    for step in steps:
        store = take(store, step)
        check(store)
    store.away = False
    longest = max((one.ends_at - store.now for one in store.planner.leases.values()), default=0.0)
    store.run(int(max(longest, 0.0)) + 20)
    assert {path: store.asked[stored(path)] for path in OWN} == OWN
    store.run(61)
    assert not store.kept
    assert not store.planner.files
