"""Over a network that loses messages a server's running sum stays what its workers hold.

Every worker's `held` is what it believes the server to have of it. Whatever is lost, broken
off or late, the server's sum is that of the workers, less what is still on its way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.algorithms.censored import Innovation, total
from fedsim.core.ports import Array, ClientId, Message, Reply
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.schema import Event
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.server import SimServer
from fedsim.sim.world import World
from tests.sim.worlds import star

CLIENTS = 7
RADIO = {"kind": "wifi", "latency": "10 ms", "tries": 1}
LOSSY = {"loss": {"kind": "independent", "rate": "30 %"}}
BURSTS = {"loss": {"kind": "gilbert-elliott", "p": "10 %", "r": "40 %"}}
FLICKERING = {"kind": "markov", "on": "2 s", "off": "1 s"}


class Watched:
    """A server that keeps the running sum of all that it is told, as its algorithm does."""

    def __init__(self, server: SimServer, watch: "Watch") -> None:
        self._server = server
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def exchange(
        self, message: Message, *, to: Sequence[ClientId] | None = None, **more: Any
    ) -> Sequence[Reply]:
        replies = await self._server.exchange(message, to=to, **more)
        self._watch.aggregate = self._watch.aggregate + total(self._server, replies)
        return replies

    def commit(self, model: Array, **measures: float) -> None:
        self._watch.look(self._server)
        self._watch.models.append(model)
        self._watch.sums.append(self._watch.aggregate)
        self._server.commit(model, **measures)


@dataclass
class Watch:
    """A method whose server is watched, and what was seen as each round was committed.

    Attributes:
        aggregate: the sum of the innovations that the server was told.
        errors: how far it was from what the workers hold less what is on its way, relative
            to what they hold.
        on_the_way: how many innovations were.
        models: what was committed.
        sums: `aggregate` at that time.
    """

    method: Any
    world: World | None = None
    aggregate: Any = 0.0
    errors: list[float] = field(default_factory=list)
    on_the_way: list[int] = field(default_factory=list)
    models: list[Array] = field(default_factory=list)
    sums: list[Array | float] = field(default_factory=list)

    async def serve(self, server: SimServer) -> None:
        await self.method.serve(Watched(server, self))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.method, name)

    def look(self, server: SimServer) -> None:
        """Compare the two ends."""
        assert self.world is not None
        held = [client.state.held for client in star(self.world).clients.in_order()]
        coming = [reply.message for reply in server._protocol.late]
        for lane in self.world.actors.network._up.in_order():
            waiting = lane.messages()
            coming += [envelope.message for envelope in waiting]
        deltas = [message.delta.values for message in coming if isinstance(message, Innovation)]
        difference = sum(held) - self.aggregate - sum(deltas)
        size = max((float(np.linalg.norm(one)) for one in held), default=0.0)
        self.errors.append(float(np.linalg.norm(difference)) / (size or 1.0))
        self.on_the_way.append(len(deltas))

    def check_steps(self, beta: float) -> None:
        """Compare the server's own steps with those that the sums kept here make."""
        theta = previous = np.zeros_like(self.models[0])
        for model, total_told in zip(self.models, self.sums, strict=True):
            step = theta - self.method.alpha * total_told + beta * (theta - previous)
            assert model == pytest.approx(step, rel=1e-9, abs=1e-12)
            theta, previous = model, theta


@dataclass(frozen=True)
class Seen:
    """What a run has shown: its watch, its gaps round by round, and messages lost."""

    watch: Watch
    gaps: Array
    lost: int


def run(folder: Path, algorithm: dict[str, Any], rounds: int = 150, **blocks: Any) -> Seen:
    """Run logistic regression on breast cancer for so many rounds."""
    group = {"count": CLIENTS, "device": {"kind": "pi-4"}, "radio": RADIO | LOSSY}
    scenario = {
        "problem": {
            "loss": {"kind": "logistic", "scale": "sum", "l2": 20.0, "labels": "plus-minus"},
            "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
            "split": {"kind": "contiguous", "clients": CLIENTS},
        },
        "algorithm": algorithm | {"step_size": "0.5/L"},
        "wire": {"values": "float64"},
        "fleet": [group | blocks.pop("group", {})],
        "participation": {"kind": "full", "deadline": "1 s"},
        "stop": {"rounds": rounds},
        **blocks,
    }
    plan = load(scenario)
    job = Builder(plan).build(plan.variants[0], 1)
    gaps = list[float]()

    def evaluate(model: Array) -> float:
        value = job.problem.value(model)
        gaps.append(value - job.setup.optimum)
        return value

    watch = Watch(job.setup.algorithm)
    with RunRecorder(folder, CLIENTS) as book:
        watch.world = World(replace(job.setup, algorithm=watch, evaluate=evaluate), book)
        watch.world.close(watch.world.run())
    return Seen(watch, np.array(gaps), int(book.ledger.of("count", Event.LOST).sum()))


METHODS: dict[str, dict[str, Any]] = {
    "gd": {"kind": "gd"},
    "hb": {"kind": "hb", "momentum": 0.4},
    "chb": {"kind": "chb", "momentum": 0.4, "censor": 0.1},
    "lag": {"kind": "lag", "censor": 0.1},
    "lag-wk": {"kind": "lag-wk"},
    "lag-ps": {"kind": "lag-ps"},
}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_sum_survives_losses_and_the_method_converges(method: str, tmp_path: Path) -> None:
    seen = run(tmp_path, METHODS[method])
    assert seen.lost > 100
    assert max(seen.watch.errors) < 1e-12
    seen.watch.check_steps(METHODS[method].get("momentum", 0.0))
    assert seen.gaps[-1] < 1e-6 * seen.gaps[0]


@pytest.mark.parametrize("method", ["chb", "gd"])
def test_it_survives_bursts_and_comings_and_goings(method: str, tmp_path: Path) -> None:
    group = {"radio": RADIO | BURSTS, "availability": FLICKERING}
    seen = run(tmp_path, METHODS[method], group=group)
    assert seen.lost > 100
    assert max(seen.watch.errors) < 1e-12
    assert seen.gaps[-1] < 1e-3 * seen.gaps[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_what_is_late_or_on_its_way_is_counted_when_it_comes(method: str, tmp_path: Path) -> None:
    # An uplink takes about 0.12 s, and a round 0.05 s.
    slow = {"radio": RADIO | LOSSY | {"up": "20 kbit/s"}}
    participation = {"kind": "full", "deadline": "50 ms"}
    seen = run(tmp_path, METHODS[method], group=slow, participation=participation)
    assert max(seen.watch.on_the_way) > 1
    assert max(seen.watch.errors) < 1e-12
    seen.watch.check_steps(METHODS[method].get("momentum", 0.0))
    assert np.isfinite(seen.gaps).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_what_came_in_a_round_that_was_given_up_is_counted_once(
    method: str, tmp_path: Path
) -> None:
    participation = {"kind": "full", "quorum": "70 %", "give_up": "1 s"}
    seen = run(tmp_path, METHODS[method], participation=participation)
    assert seen.lost > 100
    assert 10 < len(seen.watch.models) < 140  # the others of 150 were given up
    assert max(seen.watch.errors) < 1e-12
    seen.watch.check_steps(METHODS[method].get("momentum", 0.0))
    assert seen.gaps[-1] < 1e-2 * seen.gaps[0]
