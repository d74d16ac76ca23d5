"""A host whose controller returns: what it may read by itself stays until all is settled."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from fake_controller import FakeController

from headrace.client.reporting.link import ControllerLink
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint


@pytest.fixture
def controller() -> Iterator[FakeController]:
    controller = FakeController()
    yield controller
    controller.close()


def test_quotas_stay_while_the_controller_settles(controller: FakeController) -> None:
    told = HealthAnswer(score=80.0, level="healthy", mode="none", quotas={"hdd": 5e6})
    announced = JobAnnounced(host="h0", boot="b0", world=1)
    link = ControllerLink(Endpoint(address=controller.address), "a", lambda: announced)
    controller.answer = msgspec.structs.replace(told, quotas={}, settling=True)
    answers = [link.announce()]
    for answer in (told, controller.answer, msgspec.structs.replace(told, quotas={})):
        controller.answer = answer
        answers.append(link.announce())
    link.close()
    assert [answer and answer.quotas for answer in answers] == [{}, {"hdd": 5e6}, {"hdd": 5e6}, {}]
