"""How strongly the regulator answers on each medium, and why that is stable.

What is regulated is nearly an integrator: a quota that is a part *r* above the need fills the
queue by *r* batches per step, 100 / (0.75 x capacity) points of score each: 67 for a queue of
two batches, 8 for sixteen. Smoothing of the score and a report's delay add two iterations of
lag, the medium adds its own. Two integrators in a row (queue and quota) swing for ever; the
proportional part damps them, for the score's fall is the lack of bandwidth itself, and the
derivative part makes up for the lag. The loop is damped while the integral is small beside the
proportional part: below a twentieth of it per iteration for all of the profiles. Far from the
target, where the queue is empty or full and its score tells nothing, the integral is raised
(``RegulatorLimits.far``), so that an empty queue gets what it needs within a few iterations.
The 20 % per adjustment and the score's ends at 0 and 100 only slow the loop down. A property
test runs it for queues of 2 to 32 batches, media that follow within 0 to 4 iterations and
needs that jump by a factor of 0.5 to 2: it comes to rest within 15 points of the target, and
the quota swings by less than a fifth.

SSDs follow at once and their needs come in bursts: little integral, so that a burst leaves
nothing behind, and much derivative, so that it is met while it builds up. On hard disks what
was given shows late and noisily: more integral, less derivative. A link lies between.

Source: elastic reservation report, row B5.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headrace.core.media import Media
from headrace.policy.reservation.regulator import Gains

SSD = Gains(proportional=0.008, integral=0.0002, derivative=0.010, derivative_iterations=1.5)
HDD = Gains(proportional=0.008, integral=0.0003, derivative=0.004, derivative_iterations=3.0)
LINK = Gains(proportional=0.008, integral=0.00025, derivative=0.006, derivative_iterations=2.0)

PROFILES: Mapping[Media, Gains] = MappingProxyType({"ssd": SSD, "hdd": HDD, "link": LINK})
"""Gains by medium; each of them may be replaced where regulators are made."""
