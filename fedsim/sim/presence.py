"""Presence: which clients are reachable or switched off, and waits for changes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Protocol

import numpy as np

from fedsim.core.ports import ClientId
from fedsim.physics.availability import PresenceLaw
from fedsim.physics.batteries import Crossing, percent
from fedsim.protocol.selection import EMPTY, LOW, OFFLINE
from fedsim.results.record.log import EventLog
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import DEADLINE, NORMAL, Calendar
from fedsim.sim.power.idle import IdleMeter
from fedsim.sim.power.supply import Supply, harvested, state_of_charge

Lost = Callable[[ClientId], None]
"""Callback for a client that cannot go on: its work and its messages in transit are lost."""


class Charges(Protocol):
    """The batteries of a fleet whose rounds run in arrays: none reaches a mark there."""

    def look(self, client: ClientId) -> None:
        """Bring a client's battery up to now, as a query of its readiness does."""
        ...

    def share(self, client: ClientId) -> float:
        """Return the state of charge of a client's battery now; NaN on mains."""
        ...


_UNUSED = np.random.default_rng(0)
"""A generator for clients without random draws."""


class Presence:
    """Tracks which clients of the fleet are present.

    A client is present while it is online and its battery, if any, is not empty.

    Attributes:
        always_complete: whether all clients are always present.
        dead: how many batteries are empty now.
        on_lost: called at once as a client that was present is no longer.
        on_depleted: called with the number of empty batteries once there is one more.
    """

    def __init__(self, calendar: Calendar, log: EventLog, idle: IdleMeter) -> None:
        self.always_complete = True
        self.dead = 0
        self.on_lost: Lost
        self.on_depleted: Callable[[int], None]
        self._calendar = calendar
        self._log = log
        self._idle = idle
        self._supplies: dict[ClientId, Supply] = {}
        self._charges: Charges | None = None  # batteries in arrays, in place of `_supplies`
        self._offline: dict[ClientId, float] = {}  # since when
        self._toggles: dict[ClientId, Iterator[float]] = {}
        self._gone: set[ClientId] = set()  # for good
        # When clients that cannot take part became so, and why.
        self._since: dict[ClientId, tuple[float, str]] = {}
        self._transient: set[ClientId] = set()  # clients that may have to abort
        self._shares: dict[ClientId, tuple[float, np.random.Generator]] = {}
        self._news: list[asyncio.Future[None]] = []  # of each server that waits

    def add(
        self,
        client: ClientId,
        availability: PresenceLaw,
        supply: Supply | None,
        rng: Callable[[], np.random.Generator],
    ) -> None:
        """Register a client that may not always be present, before time begins.

        Clients that are not added are always present.
        """
        always = availability.always
        generator = _UNUSED if always else rng()  # a stream takes its time to make
        online, toggles = availability.timeline(generator)
        if supply is not None:
            self._supplies[client] = supply
        self._toggles[client] = toggles
        if availability.chance < 1:
            self._shares[client] = availability.chance, generator
        if supply is not None or not always:
            # A battery alone makes a client one that may have to abort, even if it is always
            # online.
            self._transient.add(client)
            self.always_complete = False
        if not online:
            self._offline[client] = 0.0
            self._write(Event.OFFLINE, client)
        self._await_toggle(client)
        # Neither `on_lost` nor `on_depleted` is called: they are not set yet, see
        # `World._assemble`.
        if supply is not None and not supply.store.alive:
            self.dead += 1
            self._idle.switch_off(client, 0.0)
            self._write(Event.DEPLETED, client)
        self._note_obstacle(client)

    def hold(self, charges: Charges) -> None:
        """Use batteries that are computed in arrays; all of them are ready."""
        self._charges = charges
        # `Selection` skips the eligibility of clients if all are always present. Here it has to ask
        # `obstacle`, which brings the batteries up to now and may find a charge too low.
        self.always_complete = False

    def never_leaves(self, client: ClientId) -> bool:
        """Return whether a client never has to abort."""
        return client not in self._transient

    def is_present(self, client: ClientId) -> bool:
        """Return whether a client can be reached now."""
        supply = self._supplies.get(client)
        return client not in self._offline and (supply is None or supply.store.alive)

    def obstacle(self, client: ClientId) -> str:
        """Return why a client cannot take part in a round that begins now; empty if it can."""
        if self._charges is not None:
            self._charges.look(client)
        supply = self._supplies.get(client)
        # `ready` advances the battery to now first; `store.ready` alone would be as of its last
        # event.
        if supply is not None and not supply.ready:
            return LOW if supply.store.alive else EMPTY
        return OFFLINE if client in self._offline else ""

    def charge(self, client: ClientId) -> float:
        """Return the state of charge of a client's battery; NaN on mains."""
        if self._charges is not None:
            return self._charges.share(client)
        return state_of_charge(self._supplies.get(client))

    def harvest(self, client: ClientId, watts: float) -> float:
        """Return the charging power on offer as a share of `watts`; 1 on mains."""
        return harvested(self._supplies.get(client), watts)

    def sample_available(self, client: ClientId) -> bool:
        """Sample whether a client that is present is available in this round."""
        if client not in self._shares:
            return True
        share, rng = self._shares[client]
        return bool(rng.random() < share)

    # -- events ------------------------------------------------------------------------

    def _await_toggle(self, client: ClientId) -> None:
        when = next(self._toggles[client], inf)
        if when < inf:
            # A client that comes and goes does so for ever, and alone must not keep a run alive:
            # see `Calendar.ensure_alive`.
            self._calendar.background += 1
            # A departure is the last event of its instant: what completes then still counts. An
            # arrival is a normal one: the client takes part from that instant on.
            priority = NORMAL if client in self._offline else DEADLINE
            self._calendar.at(when, self._toggle, client, priority=priority)
        elif client in self._offline:
            self._gone.add(client)

    def _toggle(self, client: ClientId) -> None:
        # In this order: this timer is no longer in the heap. Counted as a background timer still,
        # it would hide one event that is left, and the run would end as a deadlock.
        self._calendar.background -= 1
        self._calendar.ensure_alive()
        now = self._calendar.now
        if client in self._offline:
            seconds = now - self._offline.pop(client)
            self._write(Event.ONLINE, client, seconds)
        else:
            # Read before the client is marked offline. If its battery is empty, it is absent
            # already, and what it did was aborted then.
            was_there = self.is_present(client)
            self._offline[client] = now
            self._write(Event.OFFLINE, client)
            if was_there:
                self.on_lost(client)
        self._note_obstacle(client)
        self._await_toggle(client)
        self._notify()

    def on_crossing(self, client: ClientId, crossing: Crossing | None) -> None:
        """Handle a change of a client's battery."""
        now = self._calendar.now
        if crossing is Crossing.DEPLETED:
            self.dead += 1
            self._idle.switch_off(client, now)
            self._write(Event.DEPLETED, client)
            # An offline client was absent already, and what it did was aborted then.
            if client not in self._offline:
                self.on_lost(client)
            self.on_depleted(self.dead)
        elif crossing is Crossing.CHARGED:
            self.dead -= 1
            self._write(Event.CHARGED, client, self._idle.switch_on(client, now))
        self._note_obstacle(client)
        # Before `switch_on`: its load may take the battery below the threshold again.
        self._notify()
        supply = self._supplies.get(client)
        if crossing is Crossing.CHARGED and supply is not None:
            supply.switch_on()

    def _write(self, event: Event, client: ClientId, seconds: float = 0.0) -> None:
        charge = self.charge(client)
        self._log.append(
            self._calendar.now, seconds, event, client, NO_PEER, state_of_charge=charge
        )

    # -- waits -------------------------------------------------------------------------

    def _notify(self) -> None:
        """Wake waiting tasks, after all events of this instant."""
        # A new list, since a server that is woken may wait again at this same instant.
        news, self._news = self._news, []
        if news:
            self._calendar.at(self._calendar.now, _wake, news, priority=DEADLINE)

    async def change(self) -> None:
        """Wait until the presence or the battery of any client has changed."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._news.append(news)
        # This wait ends by a background timer only. While it lasts, such timers are progress, and
        # the calendar must not take them for the end of the run.
        self._calendar.background_waits += 1
        try:
            await news
        finally:
            self._calendar.background_waits -= 1

    def why_gone(self, clients: Sequence[ClientId]) -> str:
        """Return why none of these clients will ever take part again; empty if one may."""
        reasons: dict[str, int] = {}
        thresholds: set[float] = set()  # of the clients with a charge too low
        for client in clients:
            obstacle = self.obstacle(client)
            if self._may_return(client):
                return ""
            reasons[obstacle] = reasons.get(obstacle, 0) + 1
            if obstacle == LOW:
                thresholds.add(self._supplies[client].store.threshold)
        counts = {reason: str(count) for reason, count in reasons.items()}
        if thresholds:
            lowest, highest = percent(min(thresholds)), percent(max(thresholds))
            span = lowest if lowest == highest else f"{lowest} to {highest}"
            counts[LOW] += f"; threshold {span}"
        counted = ", ".join(f"{reason} ({count})" for reason, count in counts.items())
        return f"no client can take part any more: {counted}"

    def left(self) -> dict[ClientId, tuple[float, str]]:
        """Return the clients that can never take part again, with times of departure, s, and why.

        A client whose charge fell below its threshold left then, and for that reason, also if its
        idle power has emptied the battery since.
        """
        return {
            # What began as a temporary absence has ended by another reason.
            client: (since, self.obstacle(client) if why == OFFLINE else why)
            for client, (since, why) in sorted(self._since.items())
            if not self._may_return(client)
        }

    def _note_obstacle(self, client: ClientId) -> None:
        """Record since when a client cannot take part; clear it once it can."""
        supply = self._supplies.get(client)
        # `store.ready` need not be advanced: it changes only at events of the battery, and each of
        # these comes here.
        if supply is not None and not supply.store.ready:
            why = LOW if supply.store.alive else EMPTY
        else:
            why = OFFLINE if client in self._offline else ""
        if why:
            self._since.setdefault(client, (self._calendar.now, why))
        else:
            self._since.pop(client, None)

    def _may_return(self, client: ClientId) -> bool:
        supply = self._supplies.get(client)
        return client not in self._gone and (supply is None or supply.recovers())


def _wake(news: "list[asyncio.Future[None]]") -> None:
    """Complete waits, unless they have been cancelled meanwhile."""
    for new in news:
        if not new.done():
            new.set_result(None)
