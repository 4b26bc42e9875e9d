"""What messages take of the air of a Wi-Fi cell.

A message is a number of exchanges: a transmission of one or more frames, and its acknowledgement.
Over UDP a message's packets fill as many transmissions as they need. Over TCP a connection has its
handshake; then windows of segments (`_windows`), each in as many transmissions as it needs; and the
receiver's acknowledgements, one for two segments, which are transmissions of the other side.
An exchange takes the time of its frames, and its share of what contention costs the channel
(`fedsim.physics.contention`). The contenders depend on what there is:

- Over UDP: each station with a message up, and the access point for all that goes down.
- Over TCP upwards, a station that has sent its window waits for acknowledgements, which the access
  point has to send to all, and with one station's chances: so few stations have anything to send,
  however many there are (Bruno, Conti and Gregori, "Throughput analysis and measurements in IEEE
  802.11 WLANs with TCP and UDP traffic flows", IEEE TMC 7(2), 2008). Their number changes by one
  with an exchange, and its distribution is that of a birth-death chain (`active`).
- Over TCP downwards the access point sends all data, and those stations contend that have
  acknowledgements to send.

No message waits for what is sent after the last data of all, nor for a backoff before the first:
each of M messages at once is spared one M-th of that. Of the last acknowledgements of a message
over TCP it is charged half the rest: it is complete before, but others' come in between.
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
"""The segments that a connection of TCP sends at first (RFC 6928)."""

GROWTH = 1.05
"""How a window grows after slow start: by a segment for 20 acknowledged ones (Cubic without a loss,
in ns-3 3.37 and in Linux)."""

SYN = 60
"""The bytes of a packet of the handshake, with its options (RFC 9293, RFC 7323)."""

TURNS = e - 1.0
"""Transmissions of a sender of data for one of the receiver's acknowledgements, where both always
have something to send and nothing else holds them up: 1, and as many as uniform backoffs of the
one fit into a uniform backoff of the other, whose mean is e - 2."""


@dataclass(frozen=True, eq=False)
class AirPlan:
    """The exchanges of a message, up or down.

    Attributes:
        up: whether its data go to the access point.
        bits: the bits of the message with its headers.
        exchanges: N, the number of exchanges of its data.
        seconds: the time that these and the handshake take of the channel, without contention, s.
        sent: the time for which its data are on the air, s.
        after: the time from its last data to the next backoff, s.
        windows: the windows of TCP; 0 over UDP.
        segments: the number of its packets.
        handshake: the number of exchanges of the handshake.
        back: the timing of frames of acknowledgements.
        acknowledgement: the bytes of an acknowledgement; 0 over UDP.
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
        """How long a collision with one of its transmissions takes the channel, s."""
        return self.sent / self.exchanges + AIFS

    def answers(self, ratio: float, spared: float = 0.0) -> tuple[float, float]:
        """Return how often acknowledgements are sent, and for how long each time, s.

        Args:
            ratio: transmissions of data for each of acknowledgements, at most.
            spared: how many of these do not count.
        """
        times = self.exchanges / min(ratio, self.exchanges / self.windows) if self.windows else 0.0
        if times <= spared:
            return 0.0, 0.0
        at_once = max(round(self.segments / 2 / times), 1)
        return times - spared, self.back.duration(at_once, self.acknowledgement)

    def channel_time(self, ratio: float, waited: float, share: float) -> float:
        """Return the time that the message takes of the channel, s.

        Args:
            ratio: see `answers`.
            waited: the cost of contention for each exchange, s.
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
    """Return the exchanges of a message: the same plan for messages that are alike.

    Args:
        law: the law of the cell.
        bits: the bits of the message with the headers of its packets.
        packet: the bytes of the largest packet.
        there: the timing of frames of the data.
        back: the timing of frames of the other side.
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
    """Return the segments of each window of a connection that loses nothing.

    The second one is twice the first. Cubic leaves slow start with it, for acknowledgements less
    than 2 ms apart go on for longer than a round trip (HyStart: Ha and Rhee, "Taming the elephants:
    New TCP slow start", Computer Networks 55(9), 2011), and each next one is larger by `GROWTH`.
    Windows of more than a transmission double all the same: answers come while they are sent, so
    that all transmissions are full, and only turns limit how many there are for an answer.

    Args:
        segments: the segments of the message.
        most: the segments of a transmission.
    """
    windows, window = list[int](), float(INITIAL_WINDOW)
    while segments > 0:
        windows.append(min(int(window), segments))
        segments -= windows[-1]
        window *= GROWTH if len(windows) > 1 and window < most else 2.0
    return windows


@lru_cache(maxsize=4096)
def active(stations: int, window: float) -> tuple[float, float]:
    """Return how many stations have data to send, and how often the access point has an answer.

    Each station's window is so many transmissions, after which it waits for an answer. k stations
    contend with each other and, while any of them waits, with the access point, and each is as
    likely to be next. So the next exchange makes one more active with probability 1 / (k + 1), and
    one less with k / (k + 1) divided by the window.

    >>> active(1, 1.0)
    (0.5, 0.5)

    Args:
        stations: their number, 1 or more.
        window: in transmissions, 1 or more.

    Returns:
        The mean of k, and the share of exchanges before which one waits.
    """
    k = np.arange(stations)
    contending = np.where(k + 1 < stations, k + 2, k + 1)  # with the access point, at k + 1
    ratios = window * contending / (k + 1.0) ** 2
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return float(shares @ np.arange(stations + 1)), float(1.0 - shares[-1])


class AirTerms(NamedTuple):
    """The terms of the messages of one plan while the cell is as it is.

    Attributes:
        airtime: the time that a bit takes of the channel, s.
        turns: the chance of a turn, times the bits that a turn sends. It is a share of the largest
            such product in the cell.
    """

    airtime: float
    turns: float


class CellAir(NamedTuple):
    """The state of a cell.

    Attributes:
        terms: the terms of each plan.
        attempts: the number of transmissions for each success.
        waiting: the cost of contention for each success, s of the channel.
    """

    terms: Mapping[AirPlan, AirTerms]
    attempts: float
    waiting: float


class _Way(NamedTuple):
    """The messages of one direction, up or down.

    Attributes:
        plans: the plans of its messages, and the number of messages of each.
        data: the number of contenders that send data.
        answers: the number of contenders that send acknowledgements.
        ratio: transmissions of data for each of acknowledgements, at most.
    """

    plans: Mapping[AirPlan, int]
    data: float
    answers: float
    ratio: float

    @property
    def contenders(self) -> list[Contender]:
        """The contenders, by what they send."""
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
        plans: how many there are of each, one or more.
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
    """Return what goes up: each station contends, and over TCP the access point answers all."""
    number = sum(plans.values())
    if not number:
        return _Way(plans, 0.0, 0.0, TURNS)
    if not all(plan.windows for plan in plans):
        return _Way(plans, float(number), 0.0, TURNS)
    window = sum([n * plan.exchanges / plan.windows for plan, n in plans.items()]) / number
    sending, answering = active(number, window)
    return _Way(plans, sending, max(answering, 1.0 - 1.0 / window), max(sending, TURNS))


def _down(plans: Mapping[AirPlan, int]) -> _Way:
    """Return what goes down: the access point contends, and over TCP those that answer it."""
    number = sum(plans.values())
    if not number:
        return _Way(plans, 0.0, 0.0, TURNS)
    if not all(plan.windows for plan in plans):
        return _Way(plans, 1.0, 0.0, TURNS)
    answering, sending = active(number, 1.0)
    return _Way(plans, sending, answering, TURNS)
