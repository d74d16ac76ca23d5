"""Two loaders over the same steps, in turns: what a comparison consists of. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.demo.outcome import Figures, Ratio, Segment, figures, ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Both loaders under one premise, over the same steps."""

    segments: tuple[Segment, ...]
    """In the order they ran: baseline, headrace, baseline, headrace …"""

    @property
    def step_s(self) -> float:
        """Emulated time of the accelerator per step [s]."""
        return self.segments[0].plan.step_s

    @property
    def baseline(self) -> Figures:
        """The loader that decodes on the trainer."""
        return figures([one for one in self.segments if one.plan.mode != "headrace"])

    @property
    def headrace(self) -> Figures:
        """The loader that is fed by agents."""
        return figures([one for one in self.segments if one.plan.mode == "headrace"])

    @property
    def ratio(self) -> Ratio:
        """Compare headrace to the baseline over all segments."""
        return ratio(self.baseline, self.headrace)

    @property
    def repeats(self) -> list[Ratio]:
        """Compare headrace to the baseline in each pair of segments."""
        return [ratio(figures([first]), figures([second])) for first, second in self.pairs]

    @property
    def pairs(self) -> list[tuple[Segment, Segment]]:
        """Return each baseline segment with the headrace segment over the same steps."""
        return list(zip(self.segments[::2], self.segments[1::2], strict=True))
