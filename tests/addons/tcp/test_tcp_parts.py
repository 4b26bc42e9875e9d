"""The parts of TCP by themselves: queues, what waits by flow, the receiver, the scoreboard."""

from functools import partial
from math import ceil, inf, prod
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.tcp import handshake
from fedsim.addons.tcp.boards import DUPLICATES
from fedsim.addons.tcp.fair_queue import BATCH, INTERVAL, MOST, FairQueue, newton_step
from fedsim.addons.tcp.path import TcpStage
from fedsim.addons.tcp.queue import TOGETHER, LinkQueue, SegmentTrain
from fedsim.addons.tcp.receiver import EVERY, Receiver, count_arrived, take_train
from fedsim.addons.tcp.scoreboard import Scoreboard
from fedsim.addons.tcp.sender import Sender
from fedsim.addons.tcp.window import Window
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from tests.tiers import every

BITS, RATE = 12_000.0, 12e6
SLOT = BITS / RATE

Passed = tuple[str, int, float]
"""Whose packet, its number, and when it has passed, s."""

# A queue.


@given(
    st.lists(st.tuples(st.floats(0.0, 3e-3), st.integers(1, 6)), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_a_queue_has_room_for_what_does_not_wait(
    trains: list[tuple[float, int]], limit: int
) -> None:
    """Recomputed from the begin of each packet's transmission."""
    queue, now, begun = LinkQueue(RATE, limit), 0.0, list[float]()
    free = 0.0
    for pause, count in trains:
        now += pause
        waiting = sum(start > now + TOGETHER for start in begun)
        room = limit - waiting + (free <= now + TOGETHER)
        assert queue.room(now) == room
        if room < count:
            continue
        starts = [max(free, now) + n * SLOT for n in range(count)]
        begun += starts
        free = starts[-1] + SLOT
        first, last = queue.carry(now, now, count, BITS)
        assert (first, last) == pytest.approx((starts[0] + SLOT, free))


@every(("lead", "room"), [(0.0, 1), (0.9 * SLOT, 1), (1.1 * SLOT, 0)])
@every("off", [0.0, 1e-10, -1e-10])
def test_of_an_arrival_and_a_departure_at_once_the_one_that_began_earlier_is_first(
    lead: float, room: int, off: float
) -> None:
    """A packet leaves a slot after it was begun; one that comes was on its way for longer."""
    queue = LinkQueue(RATE, 2)
    for _ in range(3):
        assert queue.carry_one(0.0, BITS) > 0
    now = SLOT + off  # the second one begins, and a place is free behind that
    assert queue.room(now, lead) == room
    assert (queue.carry_one(now, BITS, lead) > 0) == bool(room)
    queue = LinkQueue(RATE, 1)
    queue.carry_one(0.0, BITS)
    through = [queue.carry_one(now, BITS, lead) for _ in range(3)]
    assert through[:2] == pytest.approx([2 * SLOT, 3 * SLOT if room else -1.0])
    assert through[2] == -1.0


@pytest.mark.parametrize("lead", [0.0, 1.0])
def test_the_first_packet_of_an_idle_link_takes_no_place_in_its_queue(lead: float) -> None:
    """At time 0 as later: one is sent, as many wait as have room, and the others are lost."""
    queue = LinkQueue(RATE, 3)
    for _ in range(2):
        through = [queue.carry_one(0.0, BITS, lead) for _ in range(6)]
        assert through == [*[pytest.approx((n + 1) * BITS / RATE) for n in range(4)], -1.0, -1.0]
        queue.clear()
    assert queue.room(0.0, lead) == 4


# What waits by flow.


class Ends:
    """A forwarder that notes when its packets have passed their link, beside those of others."""

    def __init__(
        self,
        queue: LinkQueue,
        fair: FairQueue,
        passed: list[Passed],
        name: str,
        bucket: int | None = None,
    ) -> None:
        self._queue, self._fair, self._passed, self._name = queue, fair, passed, name
        self.bucket = bucket

    def put(self, number: int, now: float) -> None:
        """Let a packet wait that comes now."""
        self._fair.put(self, SegmentTrain(None, number, 1, BITS, now, 0.0, now, now))

    def pass_stage(self, train: SegmentTrain) -> bool:
        """Take it over the link."""
        _, end = self._queue.carry(train.first, train.last, train.count, train.bits)
        self._passed.append((self._name, train.number, end))
        return False

    def forward(self, train: SegmentTrain) -> None:
        """Nothing goes on."""
        raise AssertionError(train)


def test_flows_take_turns_however_much_each_has_waiting() -> None:
    calendar, passed = Calendar(), list[Passed]()
    queue = LinkQueue(RATE, 1, managed=True)
    fair = FairQueue(calendar, queue)
    for name, count in (("long", 6), ("short", 2)):
        ends = Ends(queue, fair, passed, name)
        for number in range(count):
            ends.put(number, 0.0)
    calendar.run()
    # The link and its queue take two at once, before any other flow has come; that one is new
    # then, and has another turn when the long one's was over.
    assert [name for name, _, _ in passed] == ["long"] * 2 + ["short"] * 2 + ["long"] * 4
    assert [end for _, _, end in passed] == pytest.approx([(n + 1) * SLOT for n in range(8)])


def test_flows_of_one_hash_share_their_turns() -> None:
    """RFC 8290, 6.2: so does any flow that comes to the same queue by chance."""
    calendar, passed = Calendar(), list[Passed]()
    queue = LinkQueue(RATE, 1, managed=True)
    fair = FairQueue(calendar, queue, linux=False)
    for name, bucket in (("one", 5), ("two", 5), ("other", 6)):
        ends = Ends(queue, fair, passed, name, bucket)
        for number in range(3):
            ends.put(number, 0.0)
    calendar.run()
    names = [name for name, _, _ in passed]
    assert names == ["one", "one", "other", "other", "one", "other", "two", "two", "two"]


def test_hashes_are_drawn_in_the_order_in_which_flows_come() -> None:
    """Two of 40 flows share one of 1,024 queues with a probability of 0.53, and each time again."""
    shared, trials = 0, 200
    for seed in range(trials):
        calendar, queue = Calendar(), LinkQueue(RATE, 1, managed=True)
        fair = FairQueue(calendar, queue, partial(np.random.default_rng, seed))
        orders = list[list[str]]()
        for _ in range(2):
            passed = list[Passed]()
            flows = [Ends(queue, fair, passed, str(name)) for name in range(40)]
            for flow in flows:
                for number in range(2):
                    flow.put(number, calendar.now)
            calendar.run()
            orders.append([name for name, _, _ in passed])
            fair.clear()
            queue.clear()
        assert orders[0] == orders[1]
        # The first two packets pass at once; then each flow has a turn before any has two.
        firsts = orders[0][2:42]
        shared += len(set(firsts)) < 39
    none = prod([1 - n / 1024 for n in range(40)])
    assert shared / trials == pytest.approx(1 - none, abs=3 * (none * (1 - none) / trials) ** 0.5)


@pytest.mark.parametrize(("linux", "order"), [(True, "aba"), (False, "baa")])
def test_a_flow_that_has_sent_is_not_a_new_one_in_ns3_where_it_bypassed_no_queue(
    linux: bool,
    order: str,
) -> None:
    """RFC 8290's new flows go first: one that has sent is old, unless its packets passed by."""
    calendar, passed = Calendar(), list[Passed]()
    queue = LinkQueue(RATE, 1, managed=True)
    fair = FairQueue(calendar, queue, linux=linux)
    a, b = Ends(queue, fair, passed, "a"), Ends(queue, fair, passed, "b")
    if linux:
        queue.carry(0.0, 0.0, 2, BITS)  # as of packets that find no other
    else:
        a.put(0, 0.0)
        a.put(1, 0.0)
    a.put(2, 0.0)
    b.put(0, 0.0)
    a.put(3, 0.0)
    calendar.run()
    names = [name for name, _, _ in passed]
    assert "".join(names[-3:]) == order


def test_what_waits_too_long_for_an_interval_is_dropped_at_a_growing_rate() -> None:
    """RFC 8289: the n-th drop comes an interval by the root of n after the one before it.

    The root is found as Linux does: by a Newton step from that of the number before it.
    """
    calendar, passed, slot = Calendar(), list[Passed](), 10 * SLOT
    queue = LinkQueue(RATE / 10, 1, managed=True)
    ends = Ends(queue, FairQueue(calendar, queue), passed, "flow")
    for number in range(80):
        ends.put(number, 0.0)
    calendar.run()
    dropped = sorted(set(range(80)) - {number for _, number, _ in passed})
    before = [max(end for _, number, end in passed if number < each) - slot for each in dropped]
    # It has waited too long from the first packet on that comes out after the target.
    assert before[0] == pytest.approx(INTERVAL + slot, abs=2 * slot)
    root = 1.0
    for nth in range(1, len(dropped)):
        assert before[nth] - before[nth - 1] == pytest.approx(INTERVAL * root, abs=1.01 * slot)
        root *= (3 - (nth + 1) * root**2) / 2


def test_newton_steps_approach_the_reciprocal_root() -> None:
    root = (1 << 16) - 1
    for count in range(2, 1000):
        root = newton_step(root, count)
        assert root / 2**16 == pytest.approx(count**-0.5, rel=0.3 if count == 2 else 0.03, abs=1e-4)


def test_the_fattest_flow_loses_a_batch_where_too_many_wait() -> None:
    calendar, passed = Calendar(), list[Passed]()
    queue = LinkQueue(1.0, 1, managed=True)
    fair = FairQueue(calendar, queue)
    fat, thin = Ends(queue, fair, passed, "fat"), Ends(queue, fair, passed, "thin")
    thin.put(0, 0.0)
    thin.put(1, 0.0)
    for number in range(MOST):
        fat.put(number, 0.0)
    assert fair.waiting == MOST
    fat.put(MOST, 0.0)
    assert fair.waiting == MOST + 1 - BATCH


# The receiver.


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.booleans())
def test_a_train_in_order_is_acknowledged_as_its_segments_are(
    counts: list[int], quick: bool
) -> None:
    one, many = [Receiver(0.2, sum(counts), quick=quick) for _ in range(2)]
    number, now = 0, 0.0
    for count in counts:
        each = list[tuple[int, float, float]]()
        for n in range(count):
            said = one.take(number + n, now + 1e-3 * n, now + 1.0 + 1e-3 * n)
            if said is not None:
                each.append((said.number, said.echo, now + 1.0 + 1e-3 * n))
        end = now + 1.0 + 1e-3 * (count - 1)
        skipped, times, sent, next_sent = take_train(many, number, count, now, 1e-3, end)
        echoes = [sent, *[next_sent + EVERY * 1e-3 * n for n in range(times - 1)]][:times]
        found = [
            (number + skipped + 1 + EVERY * n, echo, now + 1.0 + 1e-3 * (skipped + EVERY * n))
            for n, echo in enumerate(echoes)
        ]
        assert found == [pytest.approx(said) for said in each]
        assert (many.awaited, many.due) == pytest.approx((one.awaited, one.due))
        number, now = number + count, now + 5.0


def test_a_receiver_says_at_once_what_is_missing_and_when_it_has_come() -> None:
    receiver = Receiver(0.2, 5, quick=False)
    assert receiver.take(0, 0.0, 1.0) is None
    assert receiver.take(2, 0.0, 1.1) == (1, 2, 0.0)
    assert receiver.take(3, 0.0, 1.2) == (1, 3, 0.0)
    assert count_arrived(receiver) == 3
    assert receiver.take(1, 1.3, 1.4) == (4, -1, 1.3)
    assert receiver.take(1, 1.5, 1.6) == (4, -1, 1.3)  # once more, for nothing


@given(st.permutations(range(10)))
def test_a_receiver_counts_the_pieces_that_it_has_out_of_order(order: list[int]) -> None:
    receiver, arrived = Receiver(0.2, 10, quick=False), set[int]()
    for number in order:
        receiver.take(number, 0.0, 1.0)
        arrived.add(number)
        early = {each for each in arrived if each > receiver.awaited}
        assert receiver.blocks == len([each for each in early if each - 1 not in early])


@pytest.mark.parametrize(
    ("stack", "times"),
    [("linux", [0, 1, 2, 3, 4, 5, 7, 11, 19]), ("ns-3", [0, 1, 3, 7, 15, 31])],
)
def test_a_syn_without_an_answer_is_sent_again(
    stack: Any, times: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 6298 doubles the time each time; Linux does behind its `tcp_syn_linear_timeouts`."""
    calendar, sent = Calendar(), list[float]()
    monkeypatch.setattr(handshake, "forward_one", lambda *_: sent.append(calendar.now))
    message: Any = SimpleNamespace(
        calendar=calendar,
        linux=stack == "linux",
        lane=SimpleNamespace(loss=None),
        path=SimpleNamespace(header=416.0, stages=[TcpStage(LinkQueue(RATE, 1), 0.0, shared=True)]),
    )
    message.send_syn = partial(handshake.send_syn, message)
    handshake.begin_handshake(message)
    while calendar.peek() <= times[-1]:
        calendar.step()
    assert sent == times


@pytest.mark.parametrize(("stack", "owed"), [("linux", 2), ("ns-3", 0)])
def test_a_repair_that_has_arrived_lets_two_follow_but_ns3_s_sign_is_lost(
    stack: Any, owed: int
) -> None:
    """RFC 6937's slow-start bound, where one more has been sent than has arrived."""
    window = Window(Tcp(stack=stack))
    window.enter_recovery(10, 10, 1)
    for _ in range(3):
        window.count_sent()
    window.recover(1, 3, repaired=True)  # two have arrived by now, and three were sent
    assert window.size == 3 + owed


@pytest.mark.parametrize("stack", ["linux", "ns-3"])
@given(st.integers(40, 2000), st.integers(1, 200))
def test_ns3_multiplies_the_bytes_of_a_recovery_in_32_bits(
    stack: Any, flight: int, arrived: int
) -> None:
    """RFC 6937: what has arrived in the ratio of threshold and flight; here recomputed in bytes.

    Linux lets whole segments leave, and rounds up.
    """
    window = Window(Tcp(stack=stack, variant="newreno"), 1000)
    window.size = float(flight)
    window.enter_recovery(flight, flight, 1)
    threshold = int(window.threshold * 1000)
    window.count_sent()
    window.recover(arrived, flight, repaired=False)
    product = np.array([(1 + arrived) * 1000], np.uint64) * np.array([threshold], np.uint64)
    if stack == "ns-3":
        product = product.astype(np.uint32)
    may = max(float(product[0]) / (1000 * flight) - 1000, 0) / 1000
    if stack == "linux":
        may = ceil(may - 1e-9)
    assert window.size == pytest.approx(flight + may, abs=1.1e-3)


# The scoreboard.


@given(st.permutations(range(12)), st.sets(st.integers(0, 11)))
def test_a_segment_is_lost_once_enough_later_ones_have_arrived(
    order: list[int], never: set[int]
) -> None:
    board = Scoreboard(12)
    board.next = 12
    arrived = set[int]()
    for number in [each for each in order if each not in never and each]:
        board.take(number, 0.0)
        arrived.add(number)
        missing = set(range(12)) - arrived
        lost = {each for each in missing if len([a for a in arrived if a > each]) >= DUPLICATES}
        assert board.flight == 12 - len(arrived) - len(lost)
        assert board.first_lost() == min(lost, default=-1)
    lost_all = min(set(range(12)) - arrived)
    board.lose_all()
    assert (board.flight, board.first_lost()) == (0, lost_all)
    board.send_again(0, 0.0)
    assert board.flight == 1
    assert board.acknowledge(12, 0.0) == (12 - len(arrived), True)
    assert board.clean


# The sender.


def test_three_duplicates_repair_a_loss_and_cut_the_window() -> None:
    """NewReno: from ten in flight without the lost one, half of them is the threshold."""
    sent = list[tuple[int, float]]()
    window = Window(Tcp(variant="newreno", stack="ns-3"))
    window.measure(0.0, 0.1)
    sender = Sender(window, 100, lambda number, now: sent.append((number, now)))
    sender.send(0.1)
    receiver = Receiver(0.2, 100, quick=True)
    for number in range(1, 10):  # the first one is lost
        said = receiver.take(number, 0.1, 0.2)
        assert said is not None
        sender.acknowledge(said, 0.2)
        sender.send(0.2)
    numbers = [number for number, _ in sent]
    assert numbers[:10] == list(range(10))
    assert numbers[10:13] == [10, 11, 0]  # two by limited transmit, and the repair
    assert numbers.count(0) == 2
    assert window.threshold == 0.5 * (12 - 3 - 1)


def test_a_timer_that_runs_out_waits_twice_as_long_and_starts_at_one_segment() -> None:
    sent = list[tuple[int, float]]()
    window = Window(Tcp(variant="newreno", min_rto="1 s"))
    sender = Sender(window, 100, lambda number, now: sent.append((number, now)))
    sender.send(0.0)
    assert sender.deadline == 1.0
    for expected in (3.0, 7.0, 15.0):
        before = sender.deadline
        sender.time_out(before)
        assert sent[-1] == (0, before)
        assert sender.deadline == expected
        assert window.size == 1.0
    assert len(sent) == 10 + 3


@every("stack", ["linux", "ns-3"])
@every("begun", [0.0, 100.0])
def test_the_first_acknowledgement_follows_no_other(stack: Any, begun: float) -> None:
    """At time 0 as later: it shows no train of acknowledgements, however short its round trip."""
    window = Window(Tcp(stack=stack, initial_window=20))
    for number in (1, 2):
        window.measure(begun, begun + 0.0015)
        window.note_acknowledgement(number, 20, begun + 0.0015)
        window.grow(1, number, 20, begun + 0.0015)
        assert (window.threshold, window.size) == (inf, 20 + number)


def test_a_timer_that_runs_out_before_ns3s_receiver_has_heard_anything_begins_anew() -> None:
    """Its answer of the handshake comes again, with which the sender sets its window anew."""
    window = Window(Tcp(stack="ns-3"))
    thresholds = list[float]()
    for _ in range(2):
        window.reopen()
        assert window.threshold == inf
        window.time_out(10, 10, 1.0)
        thresholds.append(window.threshold)
    assert thresholds == [7, 7]  # the 0.7-fold of ten; of one, it would be two
    window.time_out(1, 10, 2.0)
    assert window.threshold == 2


@given(st.integers(2, 400))
def test_a_window_of_ns3_grows_by_whole_bytes(segments: int) -> None:
    """RFC 5681's equation 3, rounded down."""
    window = Window(Tcp(stack="ns-3", variant="newreno"), 1448)
    window.size = window.threshold = float(segments)
    size = 1448 * segments
    for _ in range(5):
        window.grow(2, 4, 10, 1.0)
        size += max(1448**2 // size, 1)
        assert window.size == pytest.approx(size / 1448, rel=1e-12)


# A window that was idle.


@every(
    ("stack", "idle", "left"),
    [
        ("linux", 0.2, 80),
        ("linux", 0.5, 40),
        ("linux", 0.8, 20),
        ("linux", 9.0, 10),
        ("ns-3", 0.2, 80),
        ("ns-3", 0.5, 10),
    ],
)
def test_an_idle_window_is_halved_for_each_timeout_by_linux(
    stack: Literal["linux", "ns-3"], idle: float, left: int
) -> None:
    """As its tcp_cwnd_restart does, down to the initial window; by RFC 5681 it begins anew."""
    window = Window(Tcp(stack=stack))
    window.size, window.threshold = 80.0, 50.0
    window.timeout, window.last_sent = 0.3, 5.0
    window.restart(10, 5.0 + idle)
    assert window.size == left
    assert window.threshold == (50 if left == 80 else 60)
