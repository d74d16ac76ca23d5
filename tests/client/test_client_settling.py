"""A host whose controller returns: what it may read by itself stays until all is settled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest
from fake_controller import FakeController
from test_client_figures import figures

from headrace.client.reporting.voice import Voice
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint

TOLD = HealthAnswer(score=80.0, level="healthy", mode="none", quotas={"hdd": 5e6})
SETTLING = msgspec.structs.replace(TOLD, quotas={}, settling=True)


@pytest.fixture
def controller() -> Iterator[FakeController]:
    controller = FakeController()
    yield controller
    controller.close()


def voice(controller: FakeController, job: str) -> Voice:
    return Voice(
        f"{job}-{os.getpid()}",
        Endpoint(address=controller.address),
        lambda host, boot, done: JobAnnounced(host=host, boot=boot, world=2, iteration=done),
        ranks=2,
        storage_tier="hdd",
        now=0.0,
    )


def quotas(voice: Voice) -> dict[str, float] | None:
    return voice.word.answer and dict(voice.word.answer.quotas)


def test_quotas_stay_while_the_controller_settles(controller: FakeController) -> None:
    found = []
    with closing(voice(controller, "settling")) as speaker:
        for answer in (SETTLING, TOLD, SETTLING, msgspec.structs.replace(TOLD, quotas={})):
            controller.answer = answer
            speaker.announce(0.0)
            found.append(quotas(speaker))
    assert found == [{}, {"hdd": 5e6}, {"hdd": 5e6}, {}]


def test_quotas_stay_also_when_another_rank_takes_the_speaker_s_place_meanwhile(
    controller: FakeController,
) -> None:
    controller.answer = TOLD
    speaker = voice(controller, "succeeded")
    with closing(speaker), closing(voice(controller, "succeeded")) as heir:
        heir.say(figures(), 1.0)
        speaker.hear(1.0)
        speaker.turn(2.0)
        heir.hear(2.0)
        assert quotas(heir) == {"hdd": 5e6}
        speaker.close()
        controller.answer = SETTLING
        heir.say(figures(iteration=9), 3.0)
        heir.turn(4.0)
        assert controller.reports[-1].iteration == 9
        assert quotas(heir) == {"hdd": 5e6}
