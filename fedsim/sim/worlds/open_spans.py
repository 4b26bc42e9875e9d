"""Energy that no row of the log has charged: of open spans until now, and of tails after now.

Work, messages and the states of radios are metered and logged at their ends. Energy at another
instant, as at the end of a round, also has the parts of open spans that lie before it. They are
what would be charged if the world ended then. The tails are what radios would take after that
instant, until the last of them sleeps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.core.ports import Array, ClientId
from fedsim.physics.radios.stages import Stages, stage_records

Ids = NDArray[np.intp]


class Spans(NamedTuple):
    """Spans of constant power.

    Attributes:
        clients: the client that spends the energy of each span, shape (n,).
        begins, ends: the times of each, s.
        joules: the energy of each beyond idle power, J.
    """

    clients: Ids
    begins: Array
    ends: Array
    joules: Array

    @classmethod
    def of(cls, spans: Iterable[tuple[ClientId, float, float, float]]) -> Self:
        """Return spans, each given by its client, begin, end and energy."""
        columns = np.array(list(spans)).reshape(-1, 4).T
        return cls(columns[0].astype(np.intp), *columns[1:])

    @classmethod
    def join(cls, parts: Iterable["Spans"]) -> Self:
        """Return all spans of some parts; at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def at_power(cls, clients: ArrayLike, begins: Array, ends: ArrayLike, watts: ArrayLike) -> Self:
        """Return spans of these powers, W."""
        until = np.broadcast_to(np.asarray(ends, np.float64), begins.shape)
        return cls(
            np.asarray(clients, np.intp), begins, until, np.asarray(watts) * (until - begins)
        )


NO_SPANS = Spans.of(())


class Unsettled(NamedTuple):
    """The energy at an instant that no row of the log has charged.

    Attributes:
        spent: the parts of open spans before that instant.
        tails: the states of radios after it, until they sleep.
    """

    spent: Spans
    tails: Spans


SETTLED = Unsettled(NO_SPANS, NO_SPANS)


class States(NamedTuple):
    """The states of some radios at an instant, none of which sleeps.

    Nothing else happens: the messages under way are broken off at that instant, as the network does
    it where a client cannot go on with them, and the radios stay on. So a promotion is completed,
    and a radio that was transferring bits enters its first stage.

    Attributes:
        clients: the client of each radio, shape (n,).
        until: the time at which its present state ends, s; at once if that is in the past.
        watts: the power of this state, W.
        following: the number of the stage after it.
    """

    clients: Ids
    until: Array
    watts: Array
    following: NDArray[np.integer]


Figure = Callable[[str, Ids, NDArray[np.integer]], Array]
"""Returns a figure of the stages that the radios of some clients are in, such as "power"."""


def tails(states: States, now: float, last: NDArray[np.integer], figure: Figure) -> Iterator[Spans]:
    """Yield the states of radios from now on until they sleep, one of each radio at a time.

    Args:
        states: the present states.
        now: the time, s.
        last: the number of the last stage of each radio, in which it sleeps, shape (n,).
        figure: see `Figure`.
    """
    clients, until, watts, following = states
    begins = np.full(len(clients), now)
    while len(clients):
        ends = np.maximum(until, begins)
        yield Spans.at_power(clients, begins, ends, watts)
        on = np.flatnonzero(following < last)
        clients, begins, following, last = clients[on], ends[on], following[on], last[on]
        watts = figure("power", clients, following)
        until = begins + figure("time", clients, following)
        following = following + 1


class StageTable:
    """The stages of the radios of a fleet, looked up by client.

    Args:
        kinds: the stages of radios, with the number of clients that have them, in their order.
    """

    def __init__(self, kinds: Iterable[tuple[int, Stages]]) -> None:
        counts, stages = zip(*kinds, strict=True)
        self._last = np.array([len(each) - 1 for each in stages])
        self._records = stage_records(stages)
        self._kinds = np.repeat(np.arange(len(stages)), counts)

    def last(self, clients: Ids) -> NDArray[np.integer]:
        """Return the number of the last stage of each radio."""
        return self._last[self._kinds[clients]]

    def figure(self, name: str, clients: Ids, stages: NDArray[np.integer]) -> Array:
        """Return a figure of the stages that radios are in; see `Figure`."""
        figures: Array = self._records[name][self._kinds[clients], stages]
        return figures


# A tail takes at most what the battery of its client has.

EmptyAt = Callable[[ClientId, Sequence[tuple[float, float]]], float]
"""Returns when a client's battery is empty, s, if its radio draws powers in turn, each given with
its end; infinite if it outlasts them."""


def bounds(parts: Sequence[Spans]) -> tuple[float, float]:
    """Return when the last of some tails ends, s, and their highest power, W."""
    spans = Spans.join(parts)
    lasting = np.where(spans.ends > spans.begins, spans.ends - spans.begins, inf)
    return float(spans.ends.max()), float((spans.joules / lasting).max())


def within_batteries(parts: Sequence[Spans], held: NDArray[np.bool_], empty_at: EmptyAt) -> Spans:
    """Return the states of radios, each up to the time at which its client's battery is empty.

    Args:
        parts: see `tails`.
        held: whether the first of these may exceed what the battery of its client has, shape (n,).
        empty_at: see `EmptyAt`.
    """
    whole = Spans.join(parts)
    if not held.any():
        return whole
    loads: dict[ClientId, list[tuple[float, float]]] = {
        client: [] for client in parts[0].clients[held].tolist()
    }
    for client, begin, end, joules in zip(*(column.tolist() for column in whole), strict=True):
        if client in loads and end > begin:
            loads[client].append((end, joules / (end - begin)))
    empty = {client: empty_at(client, powers) for client, powers in loads.items() if powers}
    ends = np.array([empty.get(client, inf) for client in whole.clients.tolist()])
    ends = np.clip(ends, whole.begins, whole.ends)
    spans = whole.ends - whole.begins
    shares = np.divide(ends - whole.begins, spans, out=np.ones(len(spans)), where=spans > 0.0)
    return whole._replace(ends=ends, joules=whole.joules * shares)
