"""What an announcement would do, without doing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from headrace.controller.hotspots.carrier import Carrier
from headrace.policy.hotspot.events import FileSeen, HotFile, StoredFile, Wanted
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.policy.hotspot.worth import Now, plan


def try_out(
    files: Sequence[HotFile],
    *,
    originals: Callable[[StoredFile], int | None],
    opened: Callable[[str], Carrier],
    eta_s: float,
    limits: HotspotLimits,
) -> Iterator[Wanted]:
    """Yield what each file that exists would get; waits for stores.

    Args:
        files: What is about to turn hot.
        originals: Tells the own number of copies of a file that is raised already.
        opened: Opens a store.
        eta_s: Time until they turn hot [s].
        limits: What to go by.

    Raises:
        HeadraceError: a store cannot be asked.
    """
    for store in sorted({one.file.store for one in files}):
        with closing(opened(store)) as carrier:
            seen = [carrier.look(one) for one in files if one.file.store == store]
            now = {
                one.file: Now(original=_original(one, originals), blocks=len(one.blocks))
                for one in seen
                if isinstance(one, FileSeen)
            }
            there = [one for one in files if one.file in now]
            yield from plan(there, now, carrier.figures(), eta_s=eta_s, limits=limits)


def _original(seen: FileSeen, originals: Callable[[StoredFile], int | None]) -> int:
    raised_from = originals(seen.file)
    return seen.asked if raised_from is None else raised_from
