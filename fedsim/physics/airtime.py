"""Channel time of the messages in a Wi-Fi cell.

A message is sent in exchanges: a transmission of one or more frames, and its acknowledgement by the
link layer. Over UDP the packets of a message fill as many transmissions as they need. Over TCP a
connection has its handshake. Then it sends windows of segments (`_windows`), each in as many
transmissions as it needs. The receiver's TCP acknowledgements, one per two segments, are
transmissions of the other side.

An exchange occupies the channel for the time of its frames, plus its share of the cost of
contention (`fedsim.physics.contention`). The contenders depend on the traffic:

- Over UDP: each station with a message up, and the access point for all messages down.
- Over TCP up: a station that has sent its window waits for acknowledgements. The access point sends
  those of all stations, with the chances of a single one. So few stations have anything to send at
  a time, whatever their number (Bruno, Conti and Gregori, "Throughput analysis and measurements in
  IEEE 802.11 WLANs with TCP and UDP traffic flows", IEEE TMC 7(2), 2008). An exchange changes their
  number by one at most, and its distribution is that of a birth-death chain (`active`).
- Over TCP down: the access point sends all data. The stations that have acknowledgements to send
  contend with it.

No message waits for what follows the last data of all messages, nor for a backoff before the first.
So the time of each of M simultaneous messages is shorter by one M-th of these. Over TCP it is also
shorter by half of what the message's last acknowledgements take beyond that. The message is
complete before these are sent; only the acknowledgements of other messages delay it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, e
from typing import NamedTuple

import numpy as np

from fedsim.physics.contention import Contender, waiting
from fedsim.physics.wifi import AIFS, BACKOFF, SIFS, SLOT, FrameTiming, Wifi

INITIAL_WINDOW = 10
"""The number of segments that a TCP connection sends at first (RFC 6928)."""

GROWTH = 1.05
"""Factor by which a window grows after slow start: one segment per 20 acknowledged ones (Cubic
without a loss, in ns-3 3.37 and in Linux)."""

SYN = 60
"""The size of a handshake packet with its options, bytes (RFC 9293, RFC 7323)."""

TURNS = e - 1.0
"""Transmissions of data per transmission of TCP acknowledgements, if both sides always have
something to send and nothing else delays them. It is 1, plus the mean number of uniform backoffs of
one side that fit into a uniform backoff of the other, e - 2."""


@dataclass(frozen=True, eq=False)
class AirPlan:
    """The exchanges of a message, up or down.

    Attributes:
        up: whether its data go to the access point.
        bits: the bits of the message with its headers.
        exchanges: N, the number of exchanges with its data.
        seconds: the channel time of these and of the handshake, without contention, s.
        sent: the time for which its data are on the air, s.
        after: the time from its last data to the next backoff, s.
        windows: the number of TCP windows; 0 over UDP.
        segments: the number of its packets.
        handshake: the number of exchanges of the handshake.
        back: the timing of frames in the other direction, which carry acknowledgements.
        acknowledgement: the size of a TCP acknowledgement, bytes; 0 over UDP.
    """

    up: bool
    bits: float
    exchanges: int
    seconds: float
    sent: float
    after: float
    windows: int
    segments: int
    handshake: int
    back: FrameTiming
    acknowledgement: int

    @property
    def collision(self) -> float:
        """The mean channel time of a collision with one of its transmissions, s."""
        return self.sent / self.exchanges + AIFS

    def answers(self, ratio: float, spared: float = 0.0) -> tuple[float, float]:
        """Return the number of transmissions of TCP acknowledgements, and the time of each, s.

        Args:
            ratio: the largest number of data transmissions per transmission of acknowledgements.
            spared: the number of acknowledgement transmissions that are not charged.
        """
        # Each window needs at least one acknowledgement before the next one.
        times = self.exchanges / min(ratio, self.exchanges / self.windows) if self.windows else 0.0
        if times <= spared:
            return 0.0, 0.0
        at_once = max(round(self.segments / 2 / times), 1)
        return times - spared, self.back.duration(at_once, self.acknowledgement)

    def channel_time(self, ratio: float, waited: float, share: float) -> float:
        """Return the channel time of the message, s.

        Args:
            ratio: see `answers`.
            waited: the cost of contention per exchange, s.
            share: 1 / M, where M messages are in the cell.
        """
        times, answer = self.answers(ratio, 0.5 * (1.0 + share))
        answered = times * (answer + SIFS + self.back.answer(2) + AIFS)
        exchanges = self.exchanges + self.handshake + times - share
        return self.seconds - share * self.after + answered + exchanges * waited


@lru_cache(maxsize=4096)
def plan(
    law: Wifi, bits: float, packet: int, there: FrameTiming, back: FrameTiming, *, up: bool
) -> AirPlan:
    """Return the exchanges of a message; the same plan for all messages with these arguments.

    Args:
        law: the law of the cell.
        bits: the bits of the message with the headers of its packets.
        packet: the size of the largest packet, bytes.
        there: the timing of frames that carry data.
        back: the timing of frames in the other direction.
        up: whether the data go to the access point.
    """
    size = max(ceil(bits / 8), 1)
    packets = -(-size // packet)
    packet_size = -(-size // packets)
    most = law.most_frames(there, packet)
    tcp = law.transport == "tcp"
    windows = _windows(packets, most) if tcp else [packets]
    full = sum([window // most for window in windows])
    rest = [window % most for window in windows if window % most]
    seconds = full * there.exchange(most, packet_size) + sum(
        [there.exchange(n, packet_size) for n in rest]
    )
    sent = full * there.duration(most, packet_size) + sum(
        [there.duration(n, packet_size) for n in rest]
    )
    shaken = 2 if tcp and law.connections == "new" else 0
    if shaken:
        seconds += there.exchange(1, SYN) + back.exchange(1, SYN)
    exchanges, number, answer = full + len(rest), len(windows), law.headers
    if not tcp:
        number, answer = 0, 0
    after = SIFS + there.answer(windows[-1] % most or most) + AIFS
    return AirPlan(up, bits, exchanges, seconds, sent, after, number, packets, shaken, back, answer)


def _windows(segments: int, most: int) -> list[int]:
    """Return the number of segments in each window of a connection without losses.

    The second window is twice the first. With it Cubic leaves slow start, because the
    acknowledgements, less than 2 ms apart, last for longer than a round trip (HyStart: Ha and Rhee,
    "Taming the elephants: New TCP slow start", Computer Networks 55(9), 2011). Each later window is
    larger by the factor `GROWTH`. Windows of more than one transmission still double:
    acknowledgements arrive while such a window is being sent, so all transmissions are full, and
    only the turns of the two sides limit the number of transmissions per acknowledgement.

    Args:
        segments: the segments of the message.
        most: the most segments in one transmission.
    """
    windows, window = list[int](), float(INITIAL_WINDOW)
    while segments > 0:
        windows.append(min(int(window), segments))
        segments -= windows[-1]
        window *= GROWTH if len(windows) > 1 and window < most else 2.0
    return windows


@lru_cache(maxsize=4096)
def active(stations: int, window: float) -> tuple[float, float]:
    """Return the mean number of stations with data to send, and how often the AP has an answer.

    Each station sends a window of several transmissions, and then waits for an answer. If k
    stations have data to send, they contend with each other, and also with the access point while
    any station waits. Each contender is equally likely to be next. So the next exchange makes k
    larger by one with probability 1 / (k + 1), and smaller by one with probability k / (k + 1)
    divided by the window.

    >>> active(1, 1.0)
    (0.5, 0.5)

    Args:
        stations: the number of stations, 1 or more.
        window: the number of transmissions in a window, 1 or more.

    Returns:
        The mean of k, and the share of exchanges before which a station waits.
    """
    k = np.arange(stations)
    contending = np.where(k + 1 < stations, k + 2, k + 1)  # with the access point, at k + 1
    ratios = window * contending / (k + 1.0) ** 2
    # Logarithms, since products of thousands of ratios overflow.
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return float(shares @ np.arange(stations + 1)), float(1.0 - shares[-1])


class AirTerms(NamedTuple):
    """Terms for the messages of one plan, while the messages in the cell stay the same.

    Attributes:
        airtime: the channel time per bit, s.
        turns: the chance of a turn times the bits sent in it, relative to the largest such product
            in the cell.
    """

    airtime: float
    turns: float


class CellAir(NamedTuple):
    """The state of a cell while the messages in it stay the same.

    Attributes:
        terms: the terms of each plan.
        attempts: the number of transmissions per successful one.
        waiting: the cost of contention per success, s of the channel.
    """

    terms: Mapping[AirPlan, AirTerms]
    attempts: float
    waiting: float


class _Way(NamedTuple):
    """The messages of one direction, up or down.

    Attributes:
        plans: the number of messages with each plan.
        data: the number of contenders that send data.
        answers: the number of contenders that send TCP acknowledgements.
        ratio: the largest number of data transmissions per transmission of acknowledgements.
    """

    plans: Mapping[AirPlan, int]
    data: float
    answers: float
    ratio: float

    @property
    def contenders(self) -> list[Contender]:
        """The contenders, grouped by what they send."""
        contenders, total = list[Contender](), sum(self.plans.values())
        for plan, number in self.plans.items():
            # Each side sends one frame of a handshake, among its data and its acknowledgements.
            shaking = plan.back.duration(1, SYN) + AIFS if plan.handshake else 0.0
            times, answer = plan.answers(self.ratio)
            sides = [(self.data, float(plan.exchanges), plan.collision)]
            if times:
                sides.append((self.answers, times, answer + AIFS))
            for contending, exchanges, longest in sides:
                share = contending * number / total
                data = exchanges / (exchanges + 1.0) if shaking else 1.0
                contenders += [
                    Contender(share * data, longest),
                    Contender(share * (1.0 - data), shaking),
                ]
        return contenders


def air(plans: Mapping[AirPlan, int]) -> CellAir:
    """Return the state of a cell in which messages of these plans are in progress.

    Args:
        plans: the number of messages with each plan, one or more.
    """
    ways = {True: _up({plan: n for plan, n in plans.items() if plan.up})}
    ways[False] = _down({plan: n for plan, n in plans.items() if not plan.up})
    contenders = [
        contender for way in ways.values() for contender in way.contenders if contender.number
    ]
    request = max([plan.back.request for plan in plans])
    cost = waiting(contenders, SLOT, BACKOFF, request)
    chances = {up: way.data / max(sum(way.plans.values()), 1) for up, way in ways.items()}
    share = 1.0 / sum(plans.values())
    fastest = max([chances[plan.up] * plan.bits / plan.exchanges for plan in plans])
    terms = {
        plan: AirTerms(
            plan.channel_time(ways[plan.up].ratio, cost.seconds, share) / plan.bits,
            chances[plan.up] * plan.bits / plan.exchanges / fastest,
        )
        for plan in plans
    }
    return CellAir(terms, cost.attempts, cost.seconds)


def _up(plans: Mapping[AirPlan, int]) -> _Way:
    """Return the messages up: each station contends, and over TCP the access point answers all."""
    number = sum(plans.values())
    if not number:
        return _Way(plans, 0.0, 0.0, TURNS)
    if not all(plan.windows for plan in plans):
        return _Way(plans, float(number), 0.0, TURNS)
    window = sum([n * plan.exchanges / plan.windows for plan, n in plans.items()]) / number
    sending, answering = active(number, window)
    return _Way(plans, sending, max(answering, 1.0 - 1.0 / window), max(sending, TURNS))


def _down(plans: Mapping[AirPlan, int]) -> _Way:
    """Return the messages down: the access point contends, and over TCP the stations."""
    number = sum(plans.values())
    if not number:
        return _Way(plans, 0.0, 0.0, TURNS)
    if not all(plan.windows for plan in plans):
        return _Way(plans, 1.0, 0.0, TURNS)
    answering, sending = active(number, 1.0)
    return _Way(plans, sending, answering, TURNS)
