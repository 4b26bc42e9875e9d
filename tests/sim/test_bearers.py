"""Bearers: which one a lane gets, and that all of them say the same."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports.bearers import Bearer, Transfer
from fedsim.physics.network_models import Lv08, NetworkModel, Site
from fedsim.physics.signals import Signal, Steps
from fedsim.physics.topology import Topology, build_routes, star, tree
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import OpenBearer
from fedsim.sim.network.models import layer
from fedsim.sim.network.transmission import FairBearer, FluidBearer
from tests.sim.links import varying
from tests.sim.radios import law, peak
from tests.tiers import every, examples

Rate = float | Signal
TRACE = Steps([0, 1], [2.0, 4.0], period=2)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message: when its bits begin to flow, of which lane, how many, how fast at most."""

    t: float
    client: int
    up: bool
    bits: float
    cap: Rate


class Bearers:
    """The bearers of a fleet, and what becomes of messages on them.

    Attributes:
        ended: when each message has passed, by its number, in the order of the ends.
        told: time, client, direction and rate of all that was told.
    """

    def __init__(
        self,
        topology: Topology,
        ups: Sequence[Rate],
        downs: Sequence[Rate] = (),
        watched: Sequence[bool] = (),
        model: NetworkModel | None = None,
    ) -> None:
        self.env = Calendar()
        self.ended: dict[int, float] = {}
        self.told: list[tuple[float, int, bool, float]] = []
        downs = downs or [inf] * len(ups)
        site = Site(
            calendar=self.env,
            topology=topology,
            up=list(map(law, ups)),
            down=list(map(law, downs)),
            watched=watched,
            changed=self._tell,
        )
        self.up, self.down = layer(model.kind if model else "fluid", model).bearers(site)

    def _tell(self, client: int, up: bool, rate: float) -> None:
        self.told.append((self.env.now, client, up, rate))

    def send(self, *messages: Sent) -> dict[int, float]:
        """Let messages flow at their times, and return when they have passed."""
        for number, message in enumerate(messages):
            self.env.at(message.t, self._start, message, number)
        self.env.run()
        return self.ended

    def _start(self, message: Sent, number: int) -> None:
        self.bearer(message).start(message.bits, peak(message.cap), self._end, number)

    def bearer(self, message: Sent) -> Bearer:
        return (self.up if message.up else self.down)[message.client]

    def _end(self, number: int) -> None:
        self.ended[number] = self.env.now


def kinds(chosen: Bearers) -> list[type[Bearer]]:
    return [type(bearer) for bearer in (*chosen.up, *chosen.down)]


OPEN, FAIR, FLUID = OpenBearer, FairBearer, FluidBearer


@every(
    ("topology", "expected"),
    [
        (star(2), [OPEN, OPEN, OPEN, OPEN]),
        (star(2, downlink=5.0, uplink=4.0), [OPEN, OPEN, OPEN, OPEN]),
        (star(2, uplink=3.9), [FAIR, FAIR, OPEN, OPEN]),
        (star(2, downlink=3.9), [OPEN, OPEN, FAIR, FAIR]),
        (varying(star(2, uplink=9.0)), [FLUID, FLUID, OPEN, OPEN]),
        (star(2, uplink=9.0, discipline="fifo"), [FLUID, FLUID, FLUID, FLUID]),
        (star(1, uplink=9.0, discipline="fifo"), [OPEN, OPEN]),
        (star(1, uplink=1.0, discipline="fifo"), [FAIR, OPEN]),
        (star(2, uplink=3.9, discipline="slotted"), [FLUID, FLUID, OPEN, OPEN]),
        (star(2, uplink=4.0, discipline="slotted"), [OPEN, OPEN, OPEN, OPEN]),
        (tree(2, 2, rate=1.0), [FAIR, FAIR, FAIR, FAIR]),
        (tree(2, 2, rate=1.0, downlink=9.0), [FAIR, FAIR, FAIR, FAIR]),
        (tree(2, 2, rate=1.0, downlink=3.9), [FAIR, FAIR, FLUID, FLUID]),
        (tree(4, 2, rate=3.0, uplink=9.0), [FAIR] * 8),
    ],
)
def test_a_lane_gets_the_cheapest_bearer(topology: Topology, expected: list[type[Bearer]]) -> None:
    radios = [2.0] * len(topology.up)
    chosen = Bearers(topology, radios, radios)
    assert kinds(chosen) == expected
    assert [bearer.open for bearer in (*chosen.up, *chosen.down)] == [
        kind is OPEN for kind in expected
    ]


@pytest.mark.parametrize(
    ("ups", "watched"), [([2.0, TRACE], ()), ([2.0, 2.0], [False, True])], ids=["trace", "watched"]
)
def test_a_fair_link_alone_is_for_constant_lanes_that_nobody_watches(
    ups: list[Rate], watched: list[bool]
) -> None:
    assert kinds(Bearers(star(2, uplink=3.0), ups, [1.0, 1.0], watched))[:2] == [FLUID, FLUID]


def test_both_directions_may_meet_at_a_link() -> None:
    graph = nx.Graph([("server", "client-0", {"rate": 3.0, "duplex": "half"})])
    chosen = Bearers(build_routes(graph, 1), [2.0], [2.0])
    assert kinds(chosen) == [FAIR, FAIR]
    assert chosen.send(Sent(0, 0, True, 3.0, 2.0), Sent(0, 0, False, 6.0, 2.0)) == {0: 2.0, 1: 3.5}


def test_an_open_bearer_is_the_radio_and_nothing_else() -> None:
    chosen = Bearers(star(2), [2.0, TRACE], [inf, inf])
    assert chosen.send(
        Sent(0.5, 0, True, 3.0, 1.5),
        Sent(0.5, 0, False, 3.0, inf),
        Sent(0.5, 0, True, 0.0, inf),
        Sent(0.5, 1, True, 6.0, TRACE),
    ) == {1: 0.5, 2: 0.5, 3: 2.5, 0: 2.5}
    assert not chosen.told


@every("cap", [3.0, Steps([0, 1], [1.0, 5.0], period=2)])
@every("watched", [(), [True]])
def test_what_is_broken_off_on_an_open_bearer_leaves_its_bits(
    cap: Rate, watched: list[bool]
) -> None:
    chosen = Bearers(star(1), [cap], [1.0], watched)
    bearer, begun, seen = chosen.up[0], list[Transfer](), list[float]()

    def start() -> None:
        begun.extend(
            bearer.start(bits, peak(cap), chosen._end, n) for n, bits in enumerate((6.0, 12.0))
        )

    def look() -> None:
        seen.extend(transfer.passed(chosen.env.now) for transfer in begun)

    def stop() -> None:
        for transfer in begun:
            transfer.stop()

    for moment, act in ((0.0, start), (1.0, look), (3.0, stop), (9.0, look)):
        chosen.env.at(moment, act)
    chosen.env.run()
    assert seen == ([3.0, 3.0, 6.0, 9.0] if cap == 3.0 else [1.0, 1.0, 6.0, 7.0])
    assert list(chosen.ended) == [0]


def test_a_trace_is_told_to_whoever_watches() -> None:
    chosen = Bearers(star(1), [TRACE], [1.0], [True])
    assert chosen.send(Sent(0.5, 0, True, 6.0, TRACE)) == {0: 2.5}
    assert chosen.told == [
        (0.5, 0, True, 2.0),
        (1.0, 0, True, 4.0),
        (2.0, 0, True, 2.0),
        (2.5, 0, True, 0.0),
    ]


def test_of_a_shared_link_only_those_are_told_who_are_watched() -> None:
    chosen = Bearers(star(2, uplink=4.0), [4.0, 4.0], watched=[False, True])
    chosen.send(Sent(0, 0, True, 2.0, 4.0), Sent(0, 1, True, 4.0, 4.0))
    assert chosen.told == [(0.0, 1, True, 2.0), (1.0, 1, True, 4.0), (1.5, 1, True, 0.0)]


def test_latency_is_what_it_is_but_under_slow_start() -> None:
    assert layer("fluid").delay(0.5) == 0.5
    assert layer("lv08", Lv08()).delay(0.5) == 6.505


def messages(up: bool) -> st.SearchStrategy[list[Sent]]:
    """Messages one after the other, each at most 16 s long, by three clients."""
    bits, caps = st.integers(0, 16).map(float), st.sampled_from([1.0, 2.0, 3.0])
    one = st.builds(Sent, st.just(0.0), st.integers(0, 2), st.just(up), bits, caps)
    starts = st.lists(st.integers(0, 40), min_size=1, max_size=12)
    return st.tuples(starts, st.lists(one, min_size=12, max_size=12)).map(
        lambda pair: [
            replace(each, t=t / 4) for t, each in zip(sorted(pair[0]), pair[1], strict=False)
        ]
    )


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
@pytest.mark.parametrize(
    "topology",
    [
        star(3, downlink=4.0, uplink=5.0),
        star(3, downlink=40.0, uplink=50.0),
        star(3, downlink=4.0, uplink=4.0, discipline="slotted"),
        tree(3, 2, rate=2.5, downlink=4.0, uplink=7.0),
        tree(3, 3, rate=2.5),
    ],
    ids=["shared", "wide", "slotted", "tree", "gateways alone"],
)
@examples(40)
@given(data=st.data())
def test_the_cheapest_bearer_says_what_the_general_one_says(
    topology: Topology, up: bool, data: st.DataObject
) -> None:
    sent = data.draw(messages(up))
    cheap = Bearers(topology, [3.0] * 3, [3.0] * 3)
    general = Bearers(varying(topology), [3.0] * 3, [3.0] * 3)
    expected = general.send(*sent)
    assert cheap.send(*sent) == {key: pytest.approx(end) for key, end in expected.items()}
