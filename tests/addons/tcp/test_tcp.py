"""TCP's windows in queues: closed forms, conservation, and what must not matter."""

from collections.abc import Sequence
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.addons.tcp import transfers
from fedsim.addons.tcp.bearers import Connections, bearers
from fedsim.addons.tcp.congestion import utilisation
from fedsim.addons.tcp.window import Window
from fedsim.physics.network_models import Site
from fedsim.physics.packet_loss import IndependentLosses, LossProcess
from fedsim.physics.radios.channel import Framing
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from tests.sim.radios import law
from tests.tiers import every

PACKETS = Framing(52, 1500)
SEGMENT = 8 * 1500


class Network:
    """A star whose server's link is the bottleneck, and the messages over it.

    Args:
        clients: their number.
        rate: of the server's link, bit/s.
        own: rate of each radio, bit/s, or a signal.
        latency: of each client's radio, one way, s.
        share: of packets that radios lose.
        parameters: of TCP.
    """

    def __init__(
        self,
        clients: int = 1,
        rate: float = inf,
        own: Any = 1e9,
        latency: float | Sequence[float] = 0.05,
        share: float = 0.0,
        **parameters: Any,
    ) -> None:
        self.calendar = Calendar()
        self.arrived = dict[int, float]()
        self.events = 0
        rng = np.random.default_rng(1)
        losses: LossProcess | None = IndependentLosses(share, rng) if share else None
        connections = Connections(
            Tcp(**{"connections": "new", **parameters}),
            lambda *_: rng,
        )
        self.cap = own if isinstance(own, float) else own.peak
        site = Site(
            calendar=self.calendar,
            topology=star(clients, uplink=rate, downlink=rate),
            up=[law(own)] * clients,
            down=[law(own)] * clients,
            latency=[latency] * clients if isinstance(latency, float) else latency,
            framing=lambda _: PACKETS,
            losses=None if losses is None else lambda *_: losses,
        )
        self.up, self.down = bearers(site, connections)
        self.bearers: list[Any] = [self.up[client] for client in range(clients)]

    def send(self, segments: float, client: int = 0) -> Any:
        """Start a message of some segments, headers included, up from a client."""
        return self.bearers[client].start(segments * SEGMENT, self.cap, self._end, client)

    def _end(self, client: int) -> None:
        self.arrived[client] = self.calendar.now

    def run(self) -> dict[int, float]:
        """Go on until nothing happens any more; return when the last messages arrived."""
        while self.calendar.peek() < inf:
            self.calendar.step()
            self.events += 1
        return self.arrived


def alone(segments: float, **rest: Any) -> float:
    """Return how long a message takes that nobody else disturbs, s."""
    network = Network(**rest)
    network.send(segments)
    return network.run()[0]


# Closed forms.


@every(
    ("stack", "variant", "windows"),
    [
        ("ns-3", "newreno", [10, 15, 23, 34]),
        ("ns-3", "cubic", [10, 20, 40, 80]),
        ("linux", "newreno", [10, 20, 40, 80]),
        ("linux", "cubic", [10, 20, 40, 80]),
    ],
)
def test_slow_start_takes_a_handshake_and_a_round_trip_for_each_window(
    stack: str, variant: str, windows: list[int]
) -> None:
    """Acknowledgements of two segments: RFC 5681 adds one for each, RFC 3465 counts both."""
    # An odd segment's acknowledgement comes with the next one's, so NewReno's windows are cut here
    # at their beginnings: one segment less never takes longer.
    for rounds in range(len(windows) - 1):
        most = sum(windows[: rounds + 1])
        network = {"variant": variant, "delayed_ack": "0 s", "own": 1e10, "stack": stack}
        assert alone(most, **network) == pytest.approx(0.1 * (1.5 + rounds), rel=1e-3)
    assert alone(11, variant=variant, own=1e10) == pytest.approx(0.25, rel=1e-3)


@pytest.mark.parametrize("initial_window", [1, 3, 10])
def test_the_initial_window_is_what_goes_out_first(initial_window: int) -> None:
    network = {"initial_window": initial_window, "own": 1e10, "delayed_ack": "0 s"}
    assert alone(initial_window, **network) == pytest.approx(0.15, rel=1e-3)
    assert alone(initial_window + 1, **network) == pytest.approx(0.25, rel=1e-3)


def test_a_connection_that_is_kept_shakes_hands_once() -> None:
    network = Network(connections="kept", own=1e10)
    network.send(10)
    first, sent = network.run()[0], network.calendar.now
    network.send(10)
    assert network.run()[0] - sent == pytest.approx(0.05, rel=1e-3)
    assert first == pytest.approx(0.15, rel=1e-3)


@pytest.mark.parametrize(("idle_restart", "rounds"), [(True, 1), (False, 0)])
def test_a_window_that_was_idle_for_a_timeout_begins_anew(
    idle_restart: bool,
    rounds: int,
) -> None:
    """RFC 2861: after 40 segments the window is 20 or more, and 10 after a pause."""
    network = Network(connections="kept", idle_restart=idle_restart, own=1e10)
    network.send(40)
    network.run()
    network.calendar.call(10.0, lambda _: network.send(20), None)
    assert network.run()[0] - 10.0 == pytest.approx(0.05 + 0.1 * rounds, rel=1e-2)


@every("clients", [1, 7])
@every("variant", ["cubic", "newreno"])
def test_long_messages_flow_at_the_rate_of_the_fluid_model(clients: int, variant: str) -> None:
    """A queue of one product of rate and round trip keeps the link busy."""
    network = Network(clients, rate=1e7, own=1e8, latency=0.02, queue_bdp=1.0, variant=variant)
    for client in range(clients):
        network.send(4_000, client)
    floor = clients * 4_000 * SEGMENT / 1e7
    assert floor < max(network.run().values()) < 1.05 * floor


@every("queue", [0.0, 0.1, 0.3, 0.6, 1.0, 3.0])
@every("variant", ["cubic", "newreno"])
def test_a_window_fills_a_link_as_its_sawtooth_does(variant: Any, queue: float) -> None:
    """The window grows to the pipe and the queue, in pipes; what is beyond 1 pipe only waits."""
    filled = utilisation(Window(Tcp(variant=variant)), queue)
    full, steps = 1.0 + queue, np.linspace(0.0, 1.0, 200_001)
    if variant == "cubic":  # by time: 1 - s^3 of the way is left (RFC 9438)
        window = full - 0.3 * full * (1.0 - steps) ** 3
        seconds = np.ones_like(steps)
    else:  # by rounds, each of which takes as long as its window is beyond 1
        window = full * (0.5 + 0.5 * steps)
        seconds = np.maximum(window, 1.0)
    rate = np.minimum(window, 1.0)
    assert filled == pytest.approx(float((rate * seconds).sum() / seconds.sum()), abs=1e-4)


def test_a_window_that_is_lost_behind_a_full_queue_waits_for_its_timeout() -> None:
    """A lone segment that is dropped has none behind it to tell, and waits for its timeout."""
    # While the first is sent, there wait: what ends the second handshake, the second segment, and
    # what ends the third handshake.
    network = Network(4, rate=1e6, own=1e9, latency=0.05, queue=3, min_rto="1 s")
    for client in range(4):
        network.send(1, client)
    times = sorted(network.run().values())
    slot = SEGMENT / 1e6
    assert times[0] == pytest.approx(0.15 + slot, rel=2e-2)
    assert times[1] == pytest.approx(0.15 + 2 * slot, rel=2e-2)
    assert all(time > 1.0 for time in times[2:])


def test_many_short_messages_into_a_short_queue_time_out() -> None:
    """Incast: forty flows of 10 kB over 10 Mbit/s take seconds, not the 0.34 s of their bits."""
    bits = 0.03 + 280 * SEGMENT / 1e7
    times = {}
    for stack in ("ns-3", "linux"):
        for queue in (50, 1000):
            network = Network(40, rate=1e7, own=1e8, latency=0.01, queue=queue, stack=stack)
            for client in range(40):
                network.send(7, client)
            times[stack, queue] = max(network.run().values())
    assert times["ns-3", 50] > 1.0
    assert bits < times["linux", 50] < 1.0  # probes find what was lost
    for stack in ("ns-3", "linux"):
        assert times[stack, 1000] == pytest.approx(bits, rel=0.02)


# Conservation.

NETWORKS = st.fixed_dictionaries(
    {
        "clients": st.integers(1, 12),
        "rate": st.floats(1e6, 1e9),
        "own": st.floats(1e6, 1e9),
        "latency": st.floats(0.0, 0.2),
        "queue": st.integers(1, 400),
        "variant": st.sampled_from(["cubic", "newreno"]),
        "discipline": st.sampled_from(["drop-tail", "fq-codel"]),
        "connections": st.sampled_from(["new", "kept"]),
        "share": st.sampled_from([0.0, 0.0, 0.02]),
    }
)


@settings(max_examples=25, deadline=None)
@given(NETWORKS, st.floats(0.0, 2_000.0))
def test_every_bit_arrives_and_none_before_the_links_have_carried_it(
    network: dict[str, Any], segments: float
) -> None:
    made = Network(**network)
    sent = [made.send(segments, client) for client in range(network["clients"])]
    arrived = made.run()
    bits = segments * SEGMENT
    assert len(arrived) == network["clients"]
    assert [transfer.passed(made.calendar.now) for transfer in sent] == [bits] * len(sent)
    assert all(transfer.again_bits >= 0 for transfer in sent)
    slowest = max(bits / network["own"], len(sent) * bits / network["rate"])
    assert max(arrived.values()) >= 3 * network["latency"] + slowest * (1 - 1e-9)
    if not network["share"]:
        for bearer in made.bearers:
            assert all(queue.claimed == 0 for queue in bearer._lane.path.shared)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(NETWORKS, st.floats(0.1, 3.0))
def test_what_has_arrived_only_grows_and_stays_when_a_transfer_is_stopped(
    network: dict[str, Any], until: float
) -> None:
    made = Network(**network)
    sent = [made.send(700, client) for client in range(network["clients"])]
    before = [0.0] * len(sent)
    while made.calendar.peek() < until:
        made.calendar.step()
        now = [transfer.passed(made.calendar.now) for transfer in sent]
        assert all(new >= old * (1 - 1e-9) for old, new in zip(before, now, strict=True))
        before = now
    first, *others = sent
    so_far, ended = first.passed(made.calendar.now), 0 in made.arrived
    first.stop()
    assert first.passed(made.calendar.now) == pytest.approx(so_far)
    made.run()
    assert first.passed(made.calendar.now) == pytest.approx(so_far)
    assert (0 in made.arrived) == ended
    assert len(made.arrived) == len(others) + ended


def test_a_radio_that_follows_a_trace_carries_the_same_bits() -> None:
    """A constant trace is the constant; one that halves the rate takes twice as long."""
    times = [
        alone(5_000, own=own, latency=0.001) for own in (1e7, Constant(1e7), Steps([0.0], [5e6]))
    ]
    assert times[1] == pytest.approx(times[0], rel=0.02)
    assert times[2] == pytest.approx(2 * times[0], rel=0.02)


# What must not matter.


def completions(order: Sequence[int], **rest: Any) -> dict[int, float]:
    """Return the arrivals of messages that are sent at one instant, in some order."""
    clients = len(order)
    latency = [0.01 + 0.003 * client for client in range(clients)]
    network = Network(clients, rate=2e7, own=5e7, latency=latency, **rest)
    for client in order:
        network.send(200 + 30 * client, client)
    return dict(sorted(network.run().items()))


@pytest.mark.parametrize("queue", [20, 1000])
def test_the_order_of_calls_within_an_instant_does_not_matter(queue: int) -> None:
    forth = completions(range(6), queue=queue)
    assert completions(range(6), queue=queue) == forth
    assert completions([3, 1, 5, 0, 4, 2], queue=queue) == pytest.approx(forth, rel=1e-9)


def test_losses_are_those_of_the_stream() -> None:
    lossy = {"share": 0.01, "queue": 1000}
    assert completions(range(4), **lossy) == completions(range(4), **lossy)
    assert completions(range(4), **lossy) != completions(range(4))


@pytest.mark.parametrize(("stack", "fewer"), [("ns-3", 5), ("linux", 2)])
def test_shorter_trains_mean_more_events_and_the_same_times(
    monkeypatch: pytest.MonkeyPatch, stack: str, fewer: int
) -> None:
    def ends() -> tuple[float, int]:
        network = Network(5, rate=5e7, own=1e8, latency=0.03, queue=4000, stack=stack)
        for client in range(5):
            network.send(700, client)
        return max(network.run().values()), network.events

    coarse, few = ends()
    monkeypatch.setattr(transfers, "SHARE", 4000)
    fine, many = ends()
    assert many > fewer * few
    assert coarse == pytest.approx(fine, rel=0.02)


@pytest.mark.parametrize("clients", [1, 20])
def test_the_events_of_a_message_grow_with_the_logarithm_of_its_size(clients: int) -> None:
    def events(segments: int, queue: int = 1000) -> int:
        own = 2e7 if clients > 1 else 1e8
        network = Network(clients, rate=1e8, own=own, latency=0.01, queue=queue)
        for client in range(clients):
            network.send(segments, client)
        network.run()
        return ceil(network.events / clients)

    assert events(7) <= 6 + (clients > 1)  # a SYN that others may hold up
    assert events(70, queue=2000) <= 45  # room for all of them; trains of four that Linux looks at
    assert events(700_000) == pytest.approx(events(70_000), abs=10)
