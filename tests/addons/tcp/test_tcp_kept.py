"""Connections that are kept: what a message leaves to the next one, as Linux has it."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.tcp.kept import KeptWindow
from fedsim.addons.tcp.receiver import QUICK, Receiver
from fedsim.physics.tcp import Tcp
from tests.addons.tcp.test_tcp import SEGMENT, Network

LAW = Tcp(connections="kept")


@pytest.mark.parametrize(("segments", "doubled"), [(10, 20), (40, 70), (70, 140)])
def test_acknowledgements_behind_the_end_of_a_message_still_open_the_window(
    segments: int, doubled: int
) -> None:
    """Each of the message's segments adds one: 10 + 60 = 70 after the windows 10, 20, 40."""
    network = Network(connections="kept", own=1e10, delayed_ack="0 s")
    network.send(segments)
    network.run()
    window = network.bearers[0]._kept
    grown = 10 + segments if segments < 70 else 80
    assert window.size == min(grown, doubled)


def test_a_window_that_is_not_half_full_does_not_grow() -> None:
    """Linux's tcp_is_cwnd_limited: 4 segments at a time leave a window of 10 as it is."""
    network = Network(connections="kept", own=1e10, idle_restart=False)
    for at in range(5):
        network.calendar.call(float(at), lambda _: network.send(4), None)
    network.run()
    assert network.bearers[0]._kept.size == 10


def test_the_next_message_has_the_window_that_the_last_one_left() -> None:
    """70 segments take the windows 10, 20 and 40; 80 that follow at once leave in one."""
    network = Network(connections="kept", own=1e10, idle_restart=False, delayed_ack="0 s")
    network.send(70)
    first = network.run()[0]
    network.calendar.call(1.0, lambda _: network.send(80), None)
    assert network.run()[0] - 1.0 == pytest.approx(0.05, rel=1e-2)
    assert first == pytest.approx(0.35, rel=1e-2)


def test_a_window_that_is_used_a_little_shrinks_towards_what_is_used() -> None:
    """RFC 2861 and Linux's tcp_cwnd_application_limited: half of what is not used is given up."""
    window = KeptWindow(LAW)
    window.size, window.threshold, window.timeout = 80.0, 40.0, 0.3
    window.note_use(30, 30, (0, 30), 0.2)
    assert window.size == 80
    window.note_use(24, 24, (30, 54), 0.4)
    assert (window.size, window.threshold) == ((80 + 30) // 2, 60)


@given(st.lists(st.floats(0.01, 0.5), min_size=1, max_size=60))
def test_timeouts_are_those_of_linux(trips: list[float]) -> None:
    """Recomputed as in tcp_rtt_estimator: srtt in eighths, mdev and rttvar in quarters."""
    window, now, least = KeptWindow(LAW), 0.0, 0.2
    srtt = mdev = rttvar = most = 0.0
    for trip in np.ceil(np.array(trips) * 1e3) / 1e3:
        sent, now = now, now + float(trip)  # each is sent as the last one is acknowledged
        window.measure(sent, now)
        window.restore_timeout()
        m = window.last_trip
        if not srtt:
            srtt, mdev = 8 * m, 2 * m
            rttvar = most = max(mdev, least)
            continue
        m -= srtt / 8
        srtt += m
        if m < 0:
            m = -m - mdev / 4
            m = m / 8 if m > 0 else m
        else:
            m -= mdev / 4
        mdev += m
        most = max(most, mdev)
        rttvar = max(rttvar, most)
        rttvar -= (rttvar - most) / 4  # every sample is of a new round trip
        most = least
        assert window.timeout == pytest.approx(srtt / 8 + rttvar)


def test_a_connection_that_has_greeted_knows_its_round_trip() -> None:
    window = KeptWindow(LAW)
    window.seed_rtt(0.1)
    assert (window.trip, window.least_trip) == (0.1, 0.1)
    assert 0.2 + 0.1 <= window.timeout <= 0.3 + 1e-9
    assert window.is_idle(0.0)


def test_a_greeting_leaves_the_timeout_of_linux() -> None:
    """Of round trips of 247 ms, Linux 6.18 had 688 ms in ticks of 4 ms: 744 before the last one."""
    window = KeptWindow(LAW)
    window.seed_rtt(0.247)
    late = 2 * 0.247  # of the first one; the last one takes a quarter of what is more than its own
    assert window.timeout == pytest.approx(0.247 + late - (late - (3 / 4) ** 2 * late) / 4)
    assert 0.684 < window.timeout <= 0.688
    window.measure(0.0, 0.247)  # what is said at time 0 is said behind the greeting
    window.restore_timeout()
    assert window.timeout < 0.66


def test_the_wait_for_the_own_radio_is_no_part_of_a_round_trip() -> None:
    """TCP small queues: two segments wait there, behind one on the air, and 37 in the socket."""
    slot = SEGMENT / 1e6
    network = Network(connections="kept", own=1e6, initial_window=40, delayed_ack="0 s")
    network.send(40)
    network.run()
    window = network.bearers[0]._kept
    assert 0.1 + slot < window.trip < 0.1 + 4 * slot
    assert window.last_sent == pytest.approx(network.arrived[0] - 0.05 - 3 * slot)


@pytest.mark.parametrize("segments", [1, 2, 9])
def test_the_end_of_a_message_is_acknowledged_at_once(segments: int) -> None:
    """As it has been read, by Linux's tcp_cleanup_rbuf: what is alone waits for no second one."""
    network = Network(connections="kept", own=1e10, delayed_ack="0.5 s")
    network.send(segments)
    network.run()
    assert network.bearers[0]._kept.trip == pytest.approx(0.1, rel=1e-3)


def test_a_round_of_hystart_begins_with_its_first_acknowledgement_where_nothing_grows() -> None:
    """Linux's hystart_update: the first round trip counts, which had the shortest queue."""
    window = KeptWindow(LAW)
    window.seed_rtt(0.1)
    window.size, window._limited = 20.0, False
    for number in range(1, 16):
        window.measure(0.0, 0.1 if number == 1 else 0.15)
        window.note_acknowledgement(number, 20, 0.1 + 0.01 * number)
        window.grow(1, number, 20, 0.1 + 0.01 * number)
    assert (window.size, window.threshold) == (20, inf)
    for number in range(21, 36):  # the next round has none that is short
        window.measure(0.0, 0.15)
        window.note_acknowledgement(number, 40, 0.3 + 0.01 * number)
    assert window.threshold == 20


def test_a_pause_is_no_part_of_cubics_curve() -> None:
    """The curve goes on where it was, as if the pause had not been."""
    windows = [KeptWindow(LAW), KeptWindow(LAW)]
    for window, pause in zip(windows, (0.0, 0.2), strict=True):
        window.size, window.threshold = 50.0, 40.0
        for number in range(40):
            now = number * 0.05 + (pause if number >= 20 else 0.0)
            if number == 20:
                window.begin_message(now)
            window.last_sent = now
            window.note_use(60, 60, (number, number + 60), now)
            window.grow(2, number, number + 60, now)
            if number == 19:
                window.last_sent = number * 0.05 + 0.05  # the pause begins here
    assert windows[0].size == windows[1].size > 50


@pytest.mark.parametrize("alone", [0, 1, QUICK])
def test_a_receiver_acknowledges_the_first_segments_after_a_pause_one_by_one(alone: int) -> None:
    receiver = Receiver(0.04, alone + 4, quick=False, alone=alone)
    said = [receiver.take(number, 0.0, 0.0) for number in range(alone + 4)]
    assert [each is not None for each in said] == [True] * alone + [False, True] * 2
    assert receiver.due == inf


def test_bursts_wait_for_each_other_at_a_shared_link_down_however_fast_it_is() -> None:
    """Two windows of ten segments come at once to a link that is faster than both radios."""
    network = Network(2, rate=1e9, own=4e8, delayed_ack="0 s")
    network.bearers = [network.down[client] for client in range(2)]
    for client in range(2):
        network.send(10, client)
    first, second = (network.run()[client] for client in range(2))
    slot = SEGMENT / 1e9
    assert second - first == pytest.approx(9 * slot, abs=2 * slot)
