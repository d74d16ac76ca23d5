"""How strongly the regulator answers on each medium, and why that is stable.

What is regulated is nearly an integrator: a quota that is a part *r* above the need fills the
queue by *r* batches per step, which is 100 / (0.75 x capacity) points of score each: 67 for a
queue of two batches, 8 for sixteen. The smoothing of the score and one report's delay add two
iterations of lag. With the integral alone that loop would swing for ever (two integrators in a
row), the proportional part damps it: it answers the score's fall, which is the lack of
bandwidth itself. Ratios of integral to proportional gain of 1 to 8 and below keep the linear
loop damped for all queues of two batches and more; the limits, +-20 % per adjustment and a
score that ends at 0 and 100, only slow it down. The tests run this loop for queues of 2 to 32
batches, media that answer at once or over several iterations, and needs that jump.

SSDs answer within an iteration and their needs come in bursts: little integral, so that a
burst leaves no debt behind, and more derivative, so that it is met while it builds up. On
hard disks another reader costs seeks, so what was given shows late: more integral, hardly any
derivative, which would chase noise. A link lies between.

Source: elastic reservation report, row B5.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from headrace.core.media import Media
from headrace.policy.reservation.regulator import Gains

SSD = Gains(proportional=0.008, integral=0.0008, derivative=0.004, derivative_iterations=1.5)
HDD = Gains(proportional=0.008, integral=0.0016, derivative=0.001, derivative_iterations=4.0)
LINK = Gains(proportional=0.008, integral=0.0012, derivative=0.002, derivative_iterations=3.0)

PROFILES: Mapping[Media, Gains] = MappingProxyType({"ssd": SSD, "hdd": HDD, "link": LINK})
"""Gains by medium; each of them may be replaced where regulators are made."""
