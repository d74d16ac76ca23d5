"""Where a store keeps no replicas, agents hold hot bytes: real agents over a directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from headrace.agent.local import LocalAgent
from headrace.controller.hotspots import preloads
from headrace.controller.hotspots.desk import HotspotDesk
from headrace.controller.hotspots.preloads import PreloadCarrier, preload_name
from headrace.controller.hotspots.reading import read_hot_files
from headrace.controller.hotspots.stores import open_carrier
from headrace.controller.journal import Journal
from headrace.controller.local import LocalController
from headrace.core.errors import RefusedError
from headrace.policy.hotspot.events import HotFile, SetCopies, StoredFile
from headrace.policy.hotspot.limits import HotspotLimits
from headrace.wire.connection import Connection
from headrace.wire.endpoint import Endpoint
from headrace.wire.hotspots import HotspotAsked, HotspotView
from headrace.wire.ranges import PreloadState, preload_state
from waiting import eventually

SIZE = 3_000_000
LIMITS = HotspotLimits(node_bytes_per_s=1e6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ckpt")
    (made / "hot").write_bytes(os.urandom(SIZE))
    return made


@pytest.fixture(scope="module")
def controller() -> Iterator[LocalController]:
    with LocalController() as running:
        yield running


@pytest.fixture(scope="module")
def agents(folder: Path, controller: LocalController) -> Iterator[dict[str, LocalAgent]]:
    """Two agents, by name, the controller's."""
    with closing_all() as started:
        for name in ("n0", "n1"):
            options = ("--workers", "1", "--controller", controller.address)
            agent = LocalAgent([folder], name=name, token=controller.token, options=options)
            started.append(agent.start())
        yield dict(zip(("n0", "n1"), started, strict=True))


@contextmanager
def closing_all() -> Iterator[list[LocalAgent]]:
    started: list[LocalAgent] = []
    yield started
    for agent in started:
        agent.stop()


@pytest.fixture
def carrier(agents: dict[str, LocalAgent]) -> Iterator[PreloadCarrier]:
    addresses = {name: agent.address for name, agent in agents.items()}
    with closing(PreloadCarrier(lambda: addresses, agents["n0"].token)) as opened:
        yield opened


def hot(folder: Path, **changed: object) -> HotFile:
    told: dict[str, object] = {
        "file": StoredFile("/", f"{folder}/hot".lstrip("/")),
        "size": SIZE,
        "hot_bytes": SIZE,
        "readers": 16,
    }
    return HotFile(**(told | changed))  # type: ignore[arg-type]


def order(file: HotFile, copies: int) -> SetCopies:
    return SetCopies(file=file.file, copies=copies, expected=(0,), is_raise=copies > 0)


def kept(agent: LocalAgent, file: HotFile) -> PreloadState | None:
    with closing(Connection(Endpoint(address=agent.address, token=agent.token))) as connection:
        try:
            return preload_state(connection, preload_name(file.file))
        except RefusedError:
            return None


def live(carrier: PreloadCarrier, file: HotFile) -> Callable[[int], bool]:
    return lambda copies: carrier.look(file).blocks[0].copies == copies


def test_hot_bytes_are_read_ahead_by_as_many_agents_as_wanted_and_let_go_of(
    agents: dict[str, LocalAgent], folder: Path, carrier: PreloadCarrier
) -> None:
    file = hot(folder, hot_bytes=1000, ranges=((10, 400), (5000, 600)))
    assert carrier.figures().nodes == 2
    assert carrier.look(file).asked == 0
    carrier.set_copies(order(file, 1), file)
    eventually(lambda: live(carrier, file)(1))
    states = [state for agent in agents.values() if (state := kept(agent, file))]
    assert [state.nbytes for state in states] == [1000]
    carrier.set_copies(order(file, 2), file)
    eventually(lambda: live(carrier, file)(2))
    assert carrier.look(file).asked == 2
    carrier.set_copies(order(file, 0), file)
    assert [kept(agent, file) for agent in agents.values()] == [None, None]


def test_leases_of_agents_are_renewed_while_copies_are_held(
    agents: dict[str, LocalAgent],
    folder: Path,
    carrier: PreloadCarrier,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preloads, "LEASE_S", 30.0)
    monkeypatch.setattr(preloads, "_RENEW_S", 0.2)
    file = hot(folder)
    carrier.set_copies(order(file, 2), file)
    ends = []

    def looked_at() -> bool:
        carrier.look(file)
        state = kept(agents["n0"], file)
        assert state is not None
        ends.append(state.expires_in_s)
        return len(ends) > 3 and ends[-1] > ends[-2]

    def ends_soon() -> bool:
        carrier.look(file)
        state = kept(agents["n0"], file)
        return state is None or state.expires_in_s < 1.0

    eventually(looked_at)
    monkeypatch.setattr(preloads, "LEASE_S", 0.5)
    eventually(ends_soon)
    eventually(lambda: kept(agents["n0"], file) is None)


def test_an_agent_that_cannot_read_or_is_gone_is_no_copy(
    agents: dict[str, LocalAgent], folder: Path
) -> None:
    addresses = {"n0": agents["n0"].address, "gone": "http://127.0.0.1:9"}
    with closing(PreloadCarrier(lambda: addresses, agents["n0"].token)) as carrier:
        file = hot(folder)
        carrier.set_copies(order(file, 2), file)
        eventually(lambda: live(carrier, file)(1))
        outside = hot(folder, file=StoredFile("/", "etc/hostname"), size=3, hot_bytes=3)
        carrier.set_copies(order(outside, 2), outside)
        assert carrier.look(outside).blocks[0].copies == 0
        carrier.set_copies(order(file, 0), file)


def test_a_directory_without_agents_is_left_alone_and_says_why(folder: Path) -> None:
    with closing(Journal(None)) as journal:
        desk = HotspotDesk(journal, read=read_hot_files, opened=open_carrier, limits=LIMITS)
        asked = HotspotAsked(url=str(folder), world_size=100, files=("hot",))
        assert "there are no agents to hold copies" in desk.plan(asked).files[0].reason
        desk.close()


def test_a_controller_has_its_agents_hold_what_is_announced(
    agents: dict[str, LocalAgent], controller: LocalController, folder: Path
) -> None:
    asked = HotspotAsked(url=str(folder), world_size=100, files=("hot",), eta_s=60.0)
    endpoint = Endpoint(address=controller.address, token=controller.token)
    with closing(Connection(endpoint)) as connection:

        def state(method: str, path: str, message: HotspotAsked | None = None) -> HotspotView:
            return connection.call(method, f"/v1/hotspots{path}", HotspotView, message)

        view = state("POST", "", asked)
        eventually(lambda: state("GET", f"/{view.id}").state == "held")
        held = state("GET", f"/{view.id}").files[0]
        assert (held.wanted, held.live, held.original) == (2, 2, 0)
        assert all(kept(agent, hot(folder)) for agent in agents.values())
        state("DELETE", f"/{view.id}")
        eventually(lambda: not any(kept(agent, hot(folder)) for agent in agents.values()))
        eventually(lambda: state("GET", f"/{view.id}").state == "gone")
