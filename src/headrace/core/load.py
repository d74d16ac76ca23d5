"""How busy this machine is, in words: what did not come in time may only have had no CPU."""

from __future__ import annotations

import os


def busy_machine() -> str:
    """Return a clause about a machine whose CPUs are more wanted than they are many, or ''."""
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load <= cpus:
        return ""
    noun = "CPU" if cpus == 1 else "CPUs"
    return (
        f"; this machine is busy (load average {load:.1f} with {cpus} {noun}): "
        "try again when it is less so"
    )
