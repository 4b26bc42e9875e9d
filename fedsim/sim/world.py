"""The world: assembles calendar, fleet, network and actors, and keeps a run's records."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Protocol

import numpy as np

from fedsim.core.errors import Deadlock
from fedsim.core.ports import Array, ClientId, node_name
from fedsim.core.progress import activity
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.record.ledger import Meters
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event
from fedsim.results.record.summary import NO_CLIENTS, Departure, Departures, Ending
from fedsim.sim.arrays.fits import why_events, why_slower
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.config import WorldConfig
from fedsim.sim.engine.calendar import DEADLINE, Calendar
from fedsim.sim.engine.loop import simulate
from fedsim.sim.fleet import Fleet, Roster
from fedsim.sim.network.transport import ServerLanes
from fedsim.sim.power.idle import emissions_of
from fedsim.sim.worlds.observed import ObservedRun
from fedsim.sim.worlds.observer import Observer, OnRound, ignore_round
from fedsim.sim.worlds.open_spans import Unsettled


class Actors(Protocol):
    """The actors of a world: a server and its clients, or peers."""

    @property
    def network(self) -> ServerLanes:
        """The lanes between them."""
        ...

    @property
    def doing(self) -> str:
        """Describe the current activity in a few words, from any thread; empty if there is none."""
        ...

    @property
    def left(self) -> Mapping[ClientId, float]:
        """The nodes that left a graph of peers for good, with the time of each, s."""
        ...

    def unsettled(self) -> Unsettled:
        """Return the energy that no row has charged yet."""
        ...

    @property
    def unheard(self) -> int:
        """The number of clients, or gateways, that were asked in vain; 0 among peers."""
        ...

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        ...

    @property
    def stuck(self) -> str:
        """Describe which actors were blocked when the world ended; empty if none."""
        ...

    @property
    def remedy(self) -> str:
        """The advice if every actor waits."""
        ...

    async def run(self) -> Ending:
        """Run to the end; return how and why the run ended."""
        ...

    def stop(self, reason: str) -> None:
        """End the run now."""
        ...

    def lose(self, client: ClientId) -> None:
        """Abort all that a client does: it has left, or its battery is empty."""
        ...


class World(ObservedRun):
    """One run: it is built, runs once, and then reports its meters.

    Attributes:
        calendar: the calendar.
        traffic: running totals of what the run has cost.
        actors: a server and its clients, or peers.
    """

    def __init__(
        self, setup: WorldConfig, book: RunRecorder, on_round: OnRound = ignore_round
    ) -> None:
        super().__init__()
        # Before the fleet is created: its meter of idle power reads the emissions of the log.
        book.log.emissions = emissions_of(Roster.of(setup.fleet).kinds)
        if setup.hierarchy is not None:
            book.log.first_gateway = setup.hierarchy.clients
        self._setup, self._rules = setup, tuple(setup.stop.rules)
        self._opening = book.log.records  # rows written before the world began
        self._first = book, on_round
        self._assemble(book, on_round, in_arrays=not (why_events(setup) or why_slower(setup)))

    def _assemble(self, book: RunRecorder, on_round: OnRound, *, in_arrays: bool) -> None:
        """Create all parts of the world at its beginning."""
        setup = self._setup
        self.calendar = calendar = Calendar()
        self.traffic = traffic = Traffic(grams=book.log.total_emissions())
        self._book, self._log = book, book.log
        self._fleet = fleet = Fleet(setup, calendar, book.log, traffic, in_arrays=in_arrays)
        policy = setup.participation
        # A round can end without a new model at a deadline, below a gateway, or as clients leave.
        limited = min(policy.round_timeout, policy.closes_after, setup.silence.closes_after) < inf
        limited = limited or getattr(setup.algorithm, "abandons", False)
        self._observer = Observer(
            setup,
            book,
            calendar,
            traffic,
            fleet.idle,
            on_round,
            may_stay=limited
            or setup.hierarchy is not None
            or setup.aggregation.with_fewer == "skip"
            or not fleet.presence.always_complete,
        )
        self.actors = self._make_actors(in_arrays=in_arrays)
        self._observer.find_unsettled = self.actors.unsettled
        # Only now, since actors need the fleet. No call is missed: of a client that is offline or
        # empty from the start, nothing can be aborted, and `run` counts the batteries that are
        # empty from the start.
        fleet.presence.on_lost = self.actors.lose
        fleet.presence.on_depleted = self._count_dead

    def _make_actors(self, *, in_arrays: bool) -> Actors:
        """Return the actors of the one way in which this world is played; it alone is imported."""
        setup, fleet, observer, looks = self._setup, self._fleet, self._observer, self._looks
        if setup.overlay is not None and in_arrays:
            from fedsim.sim.exchanges.peers import PlayedPeers

            return PlayedPeers(setup, fleet, observer, self.traffic, self._log, looks)
        if setup.overlay is not None:
            from fedsim.sim.peers import Peers

            return Peers(setup, fleet, observer, self.traffic, looks)
        ends = setup, fleet, observer, self.calendar, self._log, self.traffic, looks
        if setup.hierarchy is not None:
            from fedsim.sim.tiers import Tiers

            return Tiers(*ends)
        if in_arrays:
            from fedsim.sim.arrays.star import ArrayStar

            return ArrayStar(*ends)
        from fedsim.sim.star import Star

        return Star(*ends)

    @property
    def unsettled(self) -> Unsettled:
        """The energy at the last commit that no row had charged by then."""
        return self._observer.unsettled

    @property
    def now(self) -> float:
        """The simulated time, s."""
        return self.calendar.now

    @property
    def unheard(self) -> int:
        """The number of clients, or gateways, that were asked in vain; 0 among peers."""
        return self.actors.unheard

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        return self.actors.aggregation_notes

    def _count_dead(self, dead: int) -> None:
        for rule in self._rules:
            if reason := rule.on_empty(dead):
                self.actors.stop(f"{rule.key}: {reason}")

    def run(self) -> str:
        """Run to the end and return the reason why it ended.

        Raises:
            Diverged: the model or the objective stopped being finite.
            Deadlock: every task waits and nothing is scheduled.
        """
        for rule in self._rules:
            if (time := rule.ends_at) < inf:
                reason = f"{rule.key}: {time:g} s"
                # Last in its instant: a round that completes at this very time still counts.
                self.calendar.at(time, self.actors.stop, reason, priority=DEADLINE)
        if self._fleet.presence.dead:  # before anything happens
            self.calendar.at(0.0, self._count_dead, self._fleet.presence.dead)
        return self._run_observed(self._simulate)

    def _simulate(self) -> Ending:
        """Run to the end, and diagnose a deadlock."""
        try:
            with activity(lambda: self.actors.doing):
                try:
                    return simulate(self.actors.run(), self.calendar)
                except ReactionError:
                    # Nothing of the first attempt is reused, not even its random streams: streams
                    # are made anew from the seed, so the second run draws the same numbers from the
                    # start.
                    self._start_again()
                    return simulate(self.actors.run(), self.calendar)
        except Deadlock:
            if not (stuck := self.actors.stuck):
                raise  # a method awaits something outside the world
            now = f"{self.calendar.now:g} s"
            text = f"nothing happens any more after t = {now}, yet {stuck}; {self.actors.remedy}"
            raise Deadlock(text) from None

    def _start_again(self) -> None:
        """Repeat the run event by event: arrays did not fit something in a round.

        The rows of its first rounds stay, as both paths write the same.
        """
        book, on_round = self._first
        seen = book.rounds.rounds
        # In arrays a handler may have run that never starts event by event.
        self._looks.clear()

        def unseen(end: RoundEnd) -> None:
            if end.round > seen:
                on_round(end)

        # The second pass skips the rows and rounds that are written already.
        from fedsim.results.record.resumed import ResumedRecorder

        resumed = ResumedRecorder(book, self._opening, self.traffic.grams)
        self._assemble(resumed, unseen, in_arrays=False)

    def meters(self) -> Meters:
        """Return the meters of the physical world, for the audit."""
        # A broadcast is sent once and received by every listener: `bits_heard` counts each
        # reception, the other figures count each message once, so that bits balance.
        messages = self.actors.network.message_log
        return Meters(
            bits_sent=self.traffic.bits_up + self.traffic.bits_down,
            bits_delivered=messages.delivered,
            bits_heard=messages.delivered + messages.repeated_receptions,
            bits_lost=messages.lost,
            bits_in_flight=messages.in_flight,
            joules=self._fleet.joules(),
            idle_joules=self._fleet.idle.per_client(self.calendar.now),
            stores=self._fleet.stores(),
            idle_grams=self._fleet.idle.grams_per_client(self.calendar.now),
        )

    def close(self, reason: str) -> None:
        """Record what was in progress at the end, why the run ended, and what the meters show."""
        # Before the network is closed, which puts all radios to sleep.
        self.costs_after = self._observer.costs_after(self.actors.unsettled().tails)
        # The network before the meters, since it charges messages in flight.
        self.actors.network.close()
        self._observer.write_idle(Event.STOP, self._book.rounds.rounds, self._log.word(reason))
        self._observer.charge_infrastructure(self.now)
        meters = self.meters()
        self._book.end(replace(meters, left=self._note_departures(len(meters.joules))))

    def _note_departures(self, clients: int) -> Array | None:
        """Return the time at which each client left for good, s; count departures and reasons.

        A node of a graph of peers that has failed once is not taken back.
        """
        presence = self._fleet.presence
        left = presence.left()
        for node, t in self.actors.left.items():
            left[node] = t, presence.obstacle(node) or "left the graph"
        if not left:
            return None
        times = np.full(clients, nan)
        times[list(left)] = [t for t, _ in left.values()]
        # A client that leaves at the very end of the run has missed nothing, so it is no departure
        # of the summary, unless the run ended because it left, or because its battery was empty.
        # The array of times has it all the same.
        ends = self._observer.ends
        deserted = self.status == NO_CLIENTS or any(
            rule.on_empty(presence.dead) for rule in self._rules
        )
        self.departures = Departures.of(
            [
                Departure(node_name(client), t, bisect_right(ends, t), why)
                for client, (t, why) in left.items()
                if t < self.now or deserted
            ]
        )
        return times
