"""The fetches that an agent answers now. Event loop's thread only."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeAlias

from headrace.agent.jobs import ServedJob
from headrace.agent.usage import Effort
from headrace.policy.lookahead_events import Asked, Serve, ServeMissing, ServeRaw
from headrace.wire.messages import FetchRequest

ServeAction: TypeAlias = Serve | ServeRaw | ServeMissing


@dataclass(slots=True)
class Request:
    """One fetch being answered."""

    number: int
    name: str
    """The job's."""

    job: ServedJob
    message: FetchRequest
    asked_at: float
    effort: Effort
    """What workers had done by then."""

    answers: asyncio.Queue[ServeAction] = field(default_factory=asyncio.Queue)
    """What to send, as it is decided; one for each sample in the end."""

    open: int = 0
    """Samples that nothing was decided about yet."""

    def asked(self) -> Asked:
        """Return the queue's view of it."""
        message = self.message
        return Asked(
            request=self.number,
            job=self.name,
            step=message.step,
            rank=message.rank,
            world=message.world,
            samples=message.samples,
            epochs=message.epochs,
            consumed_step=message.consumed_step,
            step_time_s=message.step_time_s,
            wait_s=message.wait_s,
            raw=message.want == "raw",
            parts=message.parts,
        )

    def unsent(self) -> list[int]:
        """Return the tickets of what was decided to be served and not taken up; once."""
        tickets = []
        while not self.answers.empty():
            action = self.answers.get_nowait()
            if isinstance(action, Serve):
                tickets.append(action.ticket)
        return tickets


class Fetches:
    """Requests by number."""

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}

    def __len__(self) -> int:
        """Return how many are being answered."""
        return len(self._requests)

    def begin(self, request: Request) -> None:
        """Take in one that is to be answered."""
        self._requests[request.number] = request
        request.job.requests.add(request.number)
        request.job.last_used = request.asked_at

    def decide(self, action: ServeAction) -> None:
        """Take in what one of them is to be sent."""
        request = self._requests[action.request]
        request.open -= 1
        request.answers.put_nowait(action)

    def end(self, request: Request) -> None:
        """Forget one that is answered, or that nobody waits for."""
        del self._requests[request.number]
        request.job.requests.discard(request.number)
