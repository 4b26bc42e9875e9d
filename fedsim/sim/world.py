"""The world: assembles calendar, network, clients and server, and lets them run."""

import asyncio
from collections.abc import Callable
from math import isfinite, nan

import numpy as np

from fedsim.errors import Diverged
from fedsim.ports import SERVER, Array
from fedsim.record.ledger import Meters
from fedsim.record.log import EventLog
from fedsim.record.rounds import RoundTable, Traffic
from fedsim.record.schema import NO_PEER, Event, node_name
from fedsim.sim.client import SimClient
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.loop import simulate
from fedsim.sim.network.transport import Star
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.radio import Radio
from fedsim.sim.server import SimServer
from fedsim.sim.setup import Setup
from fedsim.sim.stopping import RunStopped

OnRound = Callable[[int, float, float], None]
"""Told the round, the objective and the gap of every round that is committed."""


def _unheard(round_number: int, objective: float, gap: float) -> None:
    """Nobody listens."""


class World:
    """One run: it is built, runs once, and then says what its meters show.

    Attributes:
        calendar: the simulated time.
        traffic: running totals of what the run has cost.
        idle_joules: what the fleet drew at rest so far.
        last_round: number and objective of the last round that was committed.
    """

    def __init__(
        self, setup: Setup, log: EventLog, rounds: RoundTable, on_round: OnRound = _unheard
    ) -> None:
        self.calendar = Calendar()
        self.traffic = Traffic()
        self._setup = setup
        self._log = log
        self._rounds = rounds
        self._on_round = on_round
        self._radios = [Radio(member.radio) for member in setup.fleet]
        self._processors = [Processor(member.device) for member in setup.fleet]
        self._idle_power = sum(member.device.idle for member in setup.fleet)
        self._rested_until = 0.0
        self.last_round = 0, nan
        self._bits_in_flight = 0
        self.idle_joules = 0.0
        self._network = Star(self.calendar, self._radios, setup.server, log, self.traffic)
        self._server = self._make_server(setup)
        self._clients = [self._make_client(setup, number) for number in range(len(setup.fleet))]
        self._network.connect(self._server.receive, [client.receive for client in self._clients])

    def _make_server(self, setup: Setup) -> SimServer:
        return SimServer(
            calendar=self.calendar,
            network=self._network,
            log=self._log,
            traffic=self.traffic,
            silence=setup.silence,
            header_bits=setup.header_bits,
            clients=len(setup.fleet),
            initial=setup.initial,
            smoothness=setup.smoothness,
            pack=setup.pack_down,
            rng=setup.rng("server", 0),
            commit=self._commit,
        )

    def _make_client(self, setup: Setup, number: int) -> SimClient:
        return SimClient(
            number,
            calendar=self.calendar,
            processor=self._processors[number],
            evaluator=setup.evaluator,
            log=self._log,
            traffic=self.traffic,
            oracle=setup.fleet[number].oracle,
            state=setup.algorithm.memory(setup.initial),
            pack=setup.pack_up,
            rng=setup.rng("client", number),
        )

    def run(self) -> str:
        """Run to the end and return the reason why it ended.

        Raises:
            Diverged: the model or the objective stopped being finite.
            Deadlock: everybody waits and nothing is scheduled.
        """
        return simulate(self._main(), self.calendar)

    def meters(self) -> Meters:
        """Return what the physical world shows, for the audit."""
        spent = zip(self._processors, self._radios, strict=True)
        return Meters(
            bits_sent=self.traffic.bits_up + self.traffic.bits_down,
            bits_delivered=self._network.bits_delivered,
            bits_lost=0,
            bits_in_flight=self._bits_in_flight,
            joules=np.array([processor.joules + radio.joules for processor, radio in spent]),
            idle_joules=self.idle_joules,
        )

    async def _main(self) -> str:
        """Let the clients answer while the server serves; the first to fail ends it all."""
        main = asyncio.current_task()
        failures: list[BaseException] = []

        def fail(task: asyncio.Task[None]) -> None:
            failure = _failure(task)
            if isinstance(failure, KeyboardInterrupt | SystemExit):
                return  # it has ended the loop itself
            failures.append(failure)
            main.cancel()  # type: ignore[union-attr]  # a running coroutine has a task

        tasks = []
        for client in self._clients:
            answering = client.run(self._setup.algorithm.handle, self._server.answer)
            tasks.append(asyncio.create_task(answering, name=node_name(client.id)))
            tasks[-1].add_done_callback(fail)
        try:
            reason = await self._serve()
        except asyncio.CancelledError:
            if failures:
                raise failures[0] from None
            raise
        finally:
            for client, task in zip(self._clients, tasks, strict=True):
                client.end()
                task.remove_done_callback(fail)
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:  # a handler may fail as it is cancelled, too
            if isinstance(end, Exception):
                raise end
        return reason

    async def _serve(self) -> str:
        try:
            await self._setup.algorithm.serve(self._server)
        except RunStopped as stopped:
            return str(stopped)
        except BaseExceptionGroup as group:  # a task of a group may have committed
            stopped_in, others = group.split(RunStopped)
            if stopped_in is None or others is not None:
                raise
            return _first(stopped_in)
        return "the algorithm has ended"

    def _commit(self, model: Array, measures: dict[str, float]) -> None:
        """Evaluate the round, write it down, and stop the run where a rule applies."""
        number, now = self._rounds.rounds + 1, self.calendar.now
        objective = self._setup.evaluate(model)
        if not (isfinite(objective) and isfinite(model.sum())):
            raise Diverged(self._divergence(number, objective))
        gap = objective - self._setup.optimum
        seen = {name: measure(model) for name, measure in self._setup.measures.items()}
        self._rest(Event.ROUND, number)
        self._rounds.add(
            now, self.traffic, objective=objective, gap=gap, measures={**seen, **measures}
        )
        self.last_round = number, objective
        self._on_round(number, objective, gap)
        reason = self._setup.stop.reason(number, gap, now, self.traffic)
        if reason:
            raise RunStopped(reason)

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
        joules = self._idle_power * seconds
        self._rested_until = now
        self.idle_joules += joules
        self.traffic.joules += joules
        self._log.append(now, seconds, event, SERVER, NO_PEER, number, joules=joules, detail=detail)

    def close(self, reason: str) -> None:
        """Write down what was under way when the run ended, and why it ended."""
        self._bits_in_flight = self._network.close()
        self._rest(Event.STOP, self._rounds.rounds, self._log.word(reason))


def _first(error: BaseException) -> str:
    """Return the text of the first error in a group, or in a group within it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


def _failure(task: asyncio.Task[None]) -> BaseException:
    """Return why a client has stopped answering before the world has ended."""
    if task.cancelled():
        return RuntimeError(f"the handler of {task.get_name()} was cancelled from within")
    return task.exception() or RuntimeError(f"{task.get_name()} has stopped answering")
