"""The world: assembles calendar, fleet, network and server, and keeps the books of a run."""

from collections.abc import Callable
from functools import partial
from math import inf, isfinite, nan

from fedsim.errors import Clash, Deadlock, Diverged
from fedsim.ports import SERVER, Array, ClientId, Message
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.packing import Packing
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ServerEnd
from fedsim.protocol.stopping import RunStopped
from fedsim.record.book import Book
from fedsim.record.ledger import Meters
from fedsim.record.rounds import COLUMNS, Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.client import SimClient
from fedsim.sim.engine.calendar import DEADLINE, Calendar
from fedsim.sim.engine.loop import simulate
from fedsim.sim.fleet import Fleet
from fedsim.sim.server import SimServer
from fedsim.sim.setup import Setup
from fedsim.sim.stage import Stage

OnRound = Callable[[int, float, float], None]
"""Told the round, the objective and the gap of every round that is committed."""


def _unheard(*_: object) -> None:
    """Nobody listens."""


class World:
    """One run: it is built, runs once, and then says what its meters show.

    Attributes:
        calendar: the simulated time.
        traffic: running totals of what the run has cost.
        last_round: number and objective of the last round that was committed.
    """

    def __init__(self, setup: Setup, book: Book, on_round: OnRound = _unheard) -> None:
        self.calendar = Calendar()
        self.traffic = Traffic()
        self._setup = setup
        self._book, self._log = book, book.log
        self._on_round = on_round
        self._rested_until = 0.0
        self.last_round = 0, nan
        self._looks: set[str] = set()
        self._committed: tuple[Array, dict[str, float]] | None = None
        self._fleet = fleet = Fleet(setup, self.calendar, book.log, self.traffic)
        self._network = fleet.network(setup)
        self._server = self._make_server(setup)
        self._clients = [self._make_client(setup, number) for number in range(len(setup.fleet))]
        carriage = setup.carriage
        self._network.connect(
            carriage.to_server(self._server.receive),
            [carriage.to_client(client.receive) for client in self._clients],
            self._undelivered,
        )
        self._stage = Stage(setup.algorithm, self._server, self._clients)
        fleet.presence.lost = self._lose
        fleet.presence.emptied = self._count_dead

    def _make_server(self, setup: Setup) -> SimServer:
        return SimServer(
            self._server_end(setup),
            calendar=self.calendar,
            network=self._network,
            presence=self._fleet.presence,
            log=self._log,
            traffic=self.traffic,
            initial=setup.initial,
            smoothness=setup.smoothness,
            packing=Packing(setup.packer_down),
            weights=setup.shares,
            rng=setup.rng("server", 0),
            commit=self._commit,
            stay=self._stay,
            looks=self._looks,
        )

    def _server_end(self, setup: Setup) -> ServerEnd:
        clients, policy = range(len(setup.fleet)), setup.participation
        rng = setup.rng("cohort", 0)
        selection = Selection(policy, self._fleet.presence, clients, rng)
        silence, header = setup.silence, setup.header_bits
        return ServerEnd(clients, selection, policy, silence, header, setup.carriage)

    def _make_client(self, setup: Setup, number: int) -> SimClient:
        end = ClientEnd(
            number,
            Packing(partial(setup.packer_up, number)),
            beacons=setup.silence.beacon,
            header_bits=setup.header_bits,
            carriage=setup.carriage,
        )
        return SimClient(
            end,
            calendar=self.calendar,
            network=self._network,
            processor=self._fleet.processors[number],
            supply=self._fleet.supplies[number],
            evaluator=setup.evaluator,
            log=self._log,
            traffic=self.traffic,
            oracle=setup.fleet[number].oracle,
            state=setup.algorithm.memory(setup.initial),
            rng=setup.rng,
            take_back=setup.algorithm.undelivered,
            looks=self._looks,
        )

    # -- what happens ------------------------------------------------------------------

    def _lose(self, client: ClientId) -> None:
        """Let a client break off all that it does: it has gone, or its battery is empty."""
        self._clients[client].abort()
        self._network.abort(client)
        self._server.lose(client)

    def _undelivered(self, client: ClientId, message: Message) -> None:
        self._clients[client].undelivered(client, message)

    def _count_dead(self, dead: int) -> None:
        if dead >= self._setup.stop.batteries:
            self._stage.stop(f"batteries: {dead} are empty")

    def run(self) -> str:
        """Run to the end and return the reason why it ended.

        Raises:
            Diverged: the model or the objective stopped being finite.
            Deadlock: everybody waits and nothing is scheduled.
        """
        if self._setup.stop.time < inf:
            text = f"time: {self._setup.stop.time:g} s"
            self.calendar.at(self._setup.stop.time, self._stage.stop, text, priority=DEADLINE)
        if self._fleet.presence.dead:  # before anything happens
            self.calendar.at(0.0, self._count_dead, self._fleet.presence.dead)
        try:
            return simulate(self._stage.run(), self.calendar)
        except Deadlock:
            if not (stuck := self._server.stuck):
                raise  # a method waits for something of its own
            now = f"{self.calendar.now:g} s"
            raise Deadlock(
                f"nothing happens any more after t = {now}, yet {stuck}; give"
                " participation.give_up, or a deadline"
            ) from None

    @property
    def looks(self) -> list[str]:
        """What the method has looked at beside what it was told: "battery", "now"."""
        return sorted(self._looks)

    def meters(self) -> Meters:
        """Return what the physical world shows, for the audit."""
        books = self._network.books
        return Meters(
            bits_sent=self.traffic.bits_up + self.traffic.bits_down,
            bits_delivered=books.delivered,
            bits_heard=books.delivered + books.echoed,
            bits_lost=books.lost,
            bits_in_flight=books.in_flight,
            joules=self._fleet.joules(),
            idle_joules=self._fleet.rest.per_client(self.calendar.now),
            stores=self._fleet.stores(),
        )

    def _commit(self, model: Array, measures: dict[str, float]) -> None:
        """Evaluate the round, write it down, and stop the run where a rule applies."""
        if self._setup.participation.give_up < inf:
            self._committed = model.copy(), measures
        self._write_round(model, measures)

    def _stay(self) -> None:
        """End a round that was given up, with the model and the figures of the last one."""
        if self._committed is None:
            self._write_round(self._setup.initial, {}, complete=False)
        else:
            self._write_round(*self._committed)

    def _write_round(
        self, model: Array, measures: dict[str, float], *, complete: bool = True
    ) -> None:
        number, now = self._book.rounds.rounds + 1, self.calendar.now
        objective = self._setup.evaluate(model)
        if not (isfinite(objective) and isfinite(model.sum())):
            raise Diverged(self._divergence(number, objective))
        gap = objective - self._setup.optimum
        figures = self._figures(model, measures)
        self._rest(Event.ROUND, number)
        self._book.rounds.add(
            now, self.traffic, objective=objective, gap=gap, measures=figures, complete=complete
        )
        self._book.models.see(number, model)
        self.last_round = number, objective
        self._on_round(number, objective, gap)
        spent = self.traffic
        bits = spent.bits_up + spent.bits_down
        reason = self._setup.stop.reason(number, gap, bits, spent.joules)
        if reason:
            raise RunStopped(reason)

    def _figures(self, model: Array, given: dict[str, float]) -> dict[str, float]:
        """Return what is measured at a model beside its objective, and what was given.

        Raises:
            Clash: the algorithm has given what there is a column of already.
        """
        figures: dict[str, float] = {}
        for observe in self._setup.measures:
            figures |= observe(model)
        for name in given:
            if name not in figures and name not in COLUMNS:
                continue
            where = (
                "a measure of the scenario fills the same column; leave that out of measures"
                if name in figures
                else "every round table has a column of that name; the method takes another name"
            )
            raise Clash(f"the method gives a figure {name!r} of its own, and {where}")
        return figures | given

    def _divergence(self, number: int, objective: float) -> str:
        last, value = self.last_round
        kept = (
            f"round {last} was the last finite one, with the objective {value:.6g}"
            if last
            else "no round was finite"
        )
        return f"diverged in round {number}: the objective is {objective:g}; {kept}"

    def _rest(self, event: Event, number: int, detail: int = -1) -> None:
        """Write a row of the server with what the fleet drew at rest since the last one."""
        now = self.calendar.now
        seconds = now - self._rested_until
        joules = self._fleet.rest.take(now)
        self._rested_until = now
        self.traffic.joules += joules
        self._log.append(now, seconds, event, SERVER, NO_PEER, number, joules=joules, detail=detail)

    def close(self, reason: str) -> None:
        """Write down what was under way when the run ended, why it ended, and what meters show."""
        self._network.close()
        self._rest(Event.STOP, self._book.rounds.rounds, self._log.word(reason))
        self._book.end(self.meters())
