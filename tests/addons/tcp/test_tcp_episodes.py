"""What recurs under TCP is told again: the same to the last bit as what is simulated."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.addons.tcp import memory, worlds
from fedsim.addons.tcp.bearers import Connections, bearers
from fedsim.addons.tcp.transfer import TcpTransfer
from fedsim.physics.network_models import Site
from fedsim.physics.radios.channel import Framing
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star, tree
from fedsim.sim.engine.calendar import Calendar
from tests.sim.radios import law

SEGMENT = 8 * 1500
CLIENTS = 5
OWN = 2e7


class Start(NamedTuple):
    """A message in a round.

    Attributes:
        client: that sends it.
        after: the beginning of the round, s.
        segments: of it.
        then: what the caller does before it has arrived.
        later: when, s after its start.
    """

    client: int
    after: float
    segments: float
    then: str = "waits"
    later: float = 0.0


class Rounds:
    """Rounds of messages on links, with all that a caller is told.

    Args:
        topology: of the links.
        watched: whether rates are told, too: then nothing is replayed.
        parameters: of TCP.
    """

    def __init__(self, topology: Any, *, watched: bool = False, **parameters: Any) -> None:
        self.calendar, self.told = Calendar(), list[tuple[Any, ...]]()
        site = Site(
            calendar=self.calendar,
            topology=topology,
            up=[law(OWN)] * CLIENTS,
            down=[law(OWN)] * CLIENTS,
            latency=[0.004 + 0.001 * (client // 2) for client in range(CLIENTS)],
            watched=[watched] * CLIENTS,
            changed=lambda *news: self.told.append((self.calendar.now, *news)),
            framing=lambda _: Framing(52, 1500),
        )
        tcp = Tcp(**{"connections": "new", **parameters})
        self.up, _ = bearers(site, Connections(tcp, lambda *_: np.random.default_rng(0)))
        self.bearers: list[Any] = [self.up[client] for client in range(CLIENTS)]
        self.sent = dict[int, Any]()

    def begin(self, start: Start) -> None:
        """Let a message start, if its client's last one is over."""
        before = self.sent.get(start.client)
        if before is not None and not before.over:
            return
        bits, client = start.segments * SEGMENT, start.client
        made = self.bearers[client].start(bits, OWN, self.arrive, client)
        self.sent[client] = made
        if start.then != "waits":
            self.calendar.at(self.calendar.now + start.later, getattr(self, start.then), made)

    def arrive(self, client: int) -> None:
        """Take the end of a message."""
        self.told.append((self.calendar.now, client, self.sent[client].again_bits))

    def looks(self, made: Any) -> None:
        """Look at what has passed of a message."""
        self.told.append((self.calendar.now, made.passed(self.calendar.now), made.again_bits))

    def stops(self, made: Any) -> None:
        """Stop a message."""
        made.stop()
        self.told.append((self.calendar.now, made.passed(self.calendar.now), made.again_bits))

    def play(self, rounds: list[list[Start]], every: float) -> list[tuple[Any, ...]]:
        """Play rounds; return all that was told."""
        for number, each in enumerate(rounds):
            for start in each:
                self.calendar.at(0.37 + number * every + start.after, self.begin, start)
        self.calendar.run()
        return self.told


class Forgetful(memory.EpisodeMemory):
    """A memory that holds nothing."""

    def root(self, key: Any) -> memory.EpisodeStep:
        """Return that nothing is known."""
        return memory.EpisodeStep(0)


def simulated(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **rest: Any) -> Any:
    """Return rounds that are simulated each time."""
    with monkeypatch.context() as patched:
        patched.setattr("fedsim.addons.tcp.bearers.EpisodeMemory", Forgetful)
        return Rounds(*arguments, **rest)


STARTS = st.builds(
    Start,
    st.integers(0, CLIENTS - 1),
    st.sampled_from([0.0, 0.0, 0.001, 0.02, 0.3]),
    st.sampled_from([0.0, 1.0, 7.0, 7.5, 60.0, 400.0]),
    st.just("waits"),
    st.just(0.0),
)
OTHERS = st.builds(
    Start,
    st.integers(0, CLIENTS - 1),
    st.floats(0.0, 0.5),
    st.floats(0.0, 500.0),
    st.sampled_from(["waits", "looks", "stops"]),
    st.floats(0.0, 0.5),
)
NETWORKS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from([5, 40, 1000]),
        "variant": st.sampled_from(["cubic", "newreno"]),
        "stack": st.sampled_from(["linux", "ns-3"]),
        "discipline": st.sampled_from(["drop-tail", "drop-tail", "fq-codel"]),
    }
)
TOPOLOGIES = {
    "star": lambda: star(CLIENTS, uplink=3e7, downlink=3e7),
    "alone": lambda: star(CLIENTS),
    "tree": lambda: tree(CLIENTS, 2, rate=3e7, uplink=1e9, downlink=1e9),
    "narrow tree": lambda: tree(CLIENTS, 2, rate=3e7, uplink=4e7, downlink=1e9),
}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(TOPOLOGIES)),
    NETWORKS,
    st.lists(STARTS, min_size=1, max_size=7),
    st.lists(st.lists(OTHERS, max_size=2), min_size=3, max_size=4),
    st.sampled_from([0.013, 0.35, 3.0]),
)
def test_what_is_told_again_is_what_is_simulated_to_the_last_bit(
    topology: str, network: dict[str, Any], same: list[Start], others: Any, every: float
) -> None:
    """The same messages in every round, some of which others disturb, at any time."""
    rounds = [same, *[[*same, *each] for each in others], same]
    with pytest.MonkeyPatch.context() as patch:
        expected = simulated(patch, TOPOLOGIES[topology](), **network).play(rounds, every)
    assert Rounds(TOPOLOGIES[topology](), **network).play(rounds, every) == expected


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the bits of all messages that are simulated from now on."""
    found = list[float]()

    class Counted(TcpTransfer):
        def __init__(self, *arguments: Any, **rest: Any) -> None:
            found.append(arguments[2])
            super().__init__(*arguments, **rest)

    monkeypatch.setattr(worlds, "TcpTransfer", Counted)
    return found


def test_rounds_that_recur_are_simulated_once(made: list[float]) -> None:
    same = [Start(client, 0.001 * client, 60.0) for client in range(CLIENTS)]
    network = Rounds(star(CLIENTS, uplink=3e7))
    told = network.play([same] * 50, 1.7)
    assert len(told) == 50 * CLIENTS
    assert len(made) == CLIENTS
    first, last = ([at - n * 1.7 for at, *_ in told[n * CLIENTS :][:CLIENTS]] for n in (0, 49))
    assert last == pytest.approx(first, abs=1e-9)


def test_clients_that_are_alike_stand_for_each_other(made: list[float]) -> None:
    """Two of five clients each time; 0 and 1 are alike, and so are 2 and 3."""
    pairs = [(0, 2), (1, 3), (1, 2), (0, 3)]
    rounds = [[Start(first, 0.0, 60.0), Start(second, 0.002, 90.0)] for first, second in pairs]
    told = Rounds(star(CLIENTS, uplink=3e7)).play(rounds, 1.7)
    assert [client for _, client, _ in told] == [client for pair in pairs for client in pair]
    assert len(made) == 2


def test_alike_clients_that_share_nothing_are_simulated_once(made: list[float]) -> None:
    clients = 30
    calendar, arrived = Calendar(), list[int]()
    site = Site(
        calendar=calendar,
        topology=star(clients),
        up=[law(OWN)] * clients,
        down=[law(OWN)] * clients,
        latency=[0.01] * clients,
        framing=lambda _: Framing(52, 1500),
    )
    tcp = Tcp(connections="new")
    up, _ = bearers(site, Connections(tcp, lambda *_: np.random.default_rng(0)))
    for client in range(clients):
        calendar.at(
            0.05 * (client // 3), lambda n: up[n].start(8e5, OWN, arrived.append, n), client
        )
    calendar.run()
    assert arrived == list(range(clients))
    assert len(made) == 1


def test_a_memory_is_bounded_and_what_it_forgets_is_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MOST", 40)
    rounds = [
        [Start(client, 0.001 * client * n, 7.0 + n) for client in range(CLIENTS)]
        for n in (*range(40), 0, 0, 1)
    ]
    network = Rounds(star(CLIENTS, uplink=3e7))
    told = network.play(rounds, 1.0)
    assert network.bearers[0]._episodes._memory.size < 120
    assert told == simulated(monkeypatch, star(CLIENTS, uplink=3e7)).play(rounds, 1.0)


def test_rates_that_are_followed_add_up_to_the_bits_of_the_messages() -> None:
    # What is replayed is told at ticks: a power that follows rates would begin and end 60 ns late.
    watched = Rounds(star(CLIENTS, uplink=3e7, downlink=3e7, latency=0.01), watched=True)
    starts = [[Start(client, 0.001 * client, 40.0, "waits", 0.0) for client in range(CLIENTS)]]
    news = [each for each in watched.play(starts * 3, 5.0) if len(each) == 4]
    passed = dict.fromkeys(range(CLIENTS), 0.0)
    last = dict.fromkeys(range(CLIENTS), (0.0, 0.0))
    for now, client, _, rate in news:
        since, before = last[client]
        passed[client] += before * (now - since)
        last[client] = now, rate
    assert all(rate == 0.0 for _, rate in last.values())
    assert list(passed.values()) == pytest.approx([3 * 40.0 * SEGMENT] * CLIENTS, rel=1e-12)
