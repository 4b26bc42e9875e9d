"""Episodes of links under TCP: from idle to idle, simulated once and told again when they recur.

Rounds repeat: the same clients begin to send messages of the same sizes at the same times, counted
from the first of them. What follows is the same then, for all starts from idle links, with new
connections, and nothing is random. So what such an episode has told (when messages end, and at what
rate their bits arrive) is stored by what has begun before, as a tree: as long as what begins is
what began before, it is told from there. Where anything else begins, or one asks for more, the
packets are simulated from the beginning of the episode to the present, and on.

Times of an episode count from its beginning, in ticks: differences of times of a long run have
rounding errors, and are recognised all the same. What begins does so at a tick, and what is told
is told between two ticks, after all that begins at the first of them; so it makes no difference
whether an episode is simulated or told again.
"""

from collections.abc import Callable, Hashable
from math import ceil, inf
from typing import Any

from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.tcp.memory import Beginning, EpisodeMemory, Step, Told
from fedsim.sim.network.tcp.path import TcpLane
from fedsim.sim.network.tcp.transfer import TcpTransfer
from fedsim.sim.network.tcp.window import Window

TICKS = 2.0**24
"""In a second: 60 ns each."""

EARLY = 0.75
"""How much earlier than a tick, in ticks, what begins still belongs to it."""

MANY = 200_000
"""Of messages of an episode: then the lanes that they used are looked through for repeated ones."""

TOLD = 0.5
"""How much later than a tick, in ticks, is told what has happened up to it."""


class EpisodeTransfer:
    """A message in an episode: see `Transfer`.

    Attributes:
        number: in its episode.
        bits, finished, token, changed: what a bearer is called with, and the rate's callback.
        over: whether it was told that all has arrived, or it was stopped.
        inner: the simulated message, where its episode is simulated.
        rate: at which its bits arrive, as told, bit/s.
    """

    __slots__ = (
        "_again",
        "_episodes",
        "bits",
        "changed",
        "finished",
        "inner",
        "number",
        "over",
        "rate",
        "token",
    )

    def __init__(
        self,
        episodes: "Episodes",
        number: int,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
        changed: Changed | None,
    ) -> None:
        self._episodes, self.number, self.bits = episodes, number, bits
        self.finished, self.token, self.changed = finished, token, changed
        self.inner: TcpTransfer | None = None
        self.over, self.rate = False, 0.0
        self._again = 0

    @property
    def again_bits(self) -> int:
        """The bits that were sent again so far."""
        if not self.over:
            self._again = self._episodes.observe(self).again_bits
        return self._again

    def passed(self, now: float) -> float:  # noqa: ARG002 - it is simulated to the present
        """Return the bits that have passed by the time `now`, the present."""
        if self.over:
            return self.bits
        return self._episodes.observe(self).passed(self._episodes.clock.now)

    def end(self, again: int) -> None:
        """Tell that all has arrived."""
        self.over, self._again = True, again
        self.finished(self.token)

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        if self.over:
            return
        inner = self._episodes.observe(self)
        self._again = inner.again_bits
        self._episodes.stop(self, inner)
        self.bits, self.over = inner.passed(inf), True
        if self.rate and self.changed is not None:
            self.rate = 0.0
            self.changed(self.token, 0.0)


class Episodes:
    """What happens on links that some lanes share, and no others.

    Args:
        calendar: the time.
        clock: the time since an episode began, for its packets.
        law: TCP's parameters.
        memory: of earlier episodes.
        key: what these links are known by there.
        alone: whether there is a single lane, so that nobody disturbs its messages.

    Attributes:
        clock: see above.
    """

    __slots__ = (
        "_alone",
        "_at",
        "_base",
        "_begun",
        "_calendar",
        "_count",
        "_foretells",
        "_key",
        "_lanes",
        "_law",
        "_memory",
        "_number",
        "_open",
        "_quiet",
        "_running",
        "_seen",
        "_simulated",
        "_started",
        "_step",
        "_used",
        "_wakes",
        "clock",
    )

    def __init__(
        self,
        calendar: Calendar,
        clock: Calendar,
        law: Tcp,
        memory: EpisodeMemory,
        key: Hashable,
        *,
        alone: bool = False,
    ) -> None:
        self._calendar, self.clock, self._law = calendar, clock, law
        self._memory, self._key, self._alone = memory, key, alone
        self._foretells = False
        self._open = 0  # messages that were not told to be over
        self._wakes = inf  # when it looks what is due, s
        self._used: list[TcpLane] = []  # lanes whose queues have been used
        self._running = 0  # messages that are simulated
        self._quiet = -inf  # when the last queue is empty, s
        self._start_episode(0.0)

    def _start_episode(self, now: float) -> None:
        self._started = now
        self._simulated = False
        self._step: Step | None = self._memory.root(self._key)
        self._begun: list[tuple[Beginning, TcpLane, EpisodeTransfer]] = []
        self._lanes: dict[TcpLane, int] = {}
        self._number = 0  # of messages that have begun
        self._at = 0  # what was told of this step
        self._base = self._count = 0  # what was told before this step, and until now
        self._seen = 0  # of this, what was simulated

    def start(
        self,
        lane: TcpLane,
        key: Hashable,
        bits: float,
        cap: float,
        finished: Callable[[Any], None],
        token: object,
        changed: Changed | None,
    ) -> EpisodeTransfer:
        """Let a message begin on a lane; what those of one key send takes as long: see `Bearer`."""
        now = self._calendar.now
        if not self._open and self._is_quiet(now):
            self._start_episode(now)
        tick = int((now - self._started) * TICKS + EARLY)
        made = EpisodeTransfer(self, self._number, bits, finished, token, changed)
        self._number += 1
        self._open += 1
        which = self._lanes.setdefault(lane, len(self._lanes))
        beginning = (tick, key, which, bits, cap)
        if self._simulated:
            self._go_on(tick)
            self._note(beginning)
            self._launch(beginning, lane, made)
            self._wait()
            return made
        self._begun.append((beginning, lane, made))
        found = None if self._step is None else self._step.nexts.get(beginning)
        if found is None and self._alone and made.number == 0:
            found = self._foretell(beginning, lane, made)
        if found is None:
            self._simulate(new=True)
        else:
            self._follow(*found)
        return made

    def _is_quiet(self, now: float) -> bool:
        if not self._number:
            return True
        quiet = self._quiet
        if not self._simulated and self._step is not None:
            quiet = self._step.quiet
        return int((now - self._started) * TICKS + EARLY) >= quiet * TICKS

    def _when(self, tick: int) -> float:
        """Return when is told what has happened up to a tick, s."""
        return self._started + (tick + TOLD) / TICKS

    def _wake_by(self, when: float) -> None:
        if when < self._wakes:
            self._wakes = when
            self._calendar.call(when, self._wake, when)

    def _wake(self, when: float) -> None:
        """Do what is due."""
        if when != self._wakes:
            return
        self._wakes = inf
        if not self._simulated:
            self._tell_due()
        elif self._running:
            tick = int((when - self._started) * TICKS + EARLY)
            # Until the next event no message can begin, and nobody looks.
            other = self._calendar if self._calendar.undisturbed else None
            self.clock.run_before(tick / TICKS, other, self._started + 1 / TICKS)
            self._wait()

    # Told again.

    def _follow(self, step: Step, before: int) -> None:
        """Go on with a step that is known, after some more of this one was told."""
        if self._step is not None:
            for told in self._step.told[self._at : before]:
                self._plan(self._begun[told[1]][2], told)
                self._count += 1
        self._step, self._at, self._base = step, 0, self._count
        self._wait_for_told()

    def _wait_for_told(self) -> None:
        step = self._step
        if step is None or not self._open:
            return
        now = self._calendar.now
        if self._at < len(step.told):
            self._wake_by(max(now, self._when(step.told[self._at][0])))
        else:
            self._wake_by(max(now, self._when(step.known)))

    def _tell_due(self) -> None:
        """Tell what is due of the step, and find out what follows where that is not known."""
        step, now = self._step, self._calendar.now
        if step is None or not self._open:
            return
        while self._at < len(step.told):
            tick, number, value, ends = step.told[self._at]
            if self._when(tick) > now:
                break
            self._at += 1
            self._count += 1
            self._tell((self._begun[number][2], value, ends))
            if self._simulated or self._step is not step:
                return
        if self._open and self._at == len(step.told) and self._when(step.known) <= now:
            self._simulate(new=False)
        else:
            self._wait_for_told()

    def _plan(self, made: EpisodeTransfer, told: Told) -> None:
        """Tell something when it is due."""
        when = max(self._calendar.now, self._when(told[0]))
        self._calendar.call(when, self._tell, (made, told[2], told[3]))

    def _tell(self, told: tuple[EpisodeTransfer, float, bool]) -> None:
        made, value, ends = told
        if made.over:
            return
        if ends:
            self._open -= 1
            made.end(int(value))
        elif made.changed is not None:
            made.rate = value
            made.changed(made.token, value)

    # Simulated.

    def _clear(self) -> None:
        """Go back to the beginning of an episode, with idle links."""
        self._running = self._seen = 0
        self.clock.clear()
        for lane in self._used:
            lane.path.clear()
        self._used = []

    def _foretell(
        self, beginning: Beginning, lane: TcpLane, made: EpisodeTransfer
    ) -> tuple[Step, int] | None:
        """Simulate a message that nobody disturbs to its end at once; return what follows."""
        first = self._step
        self._clear()
        self._note(beginning)
        if self._step is None or first is None:
            return None
        self._foretells = True
        self._launch(beginning, lane, made)
        self.clock.run_before(inf)
        self._foretells = False
        self._step = first
        return first.nexts[beginning]

    def _simulate(self, *, new: bool) -> None:
        """Simulate the episode from its beginning to the present; what begins last may be new."""
        self._simulated = True
        self._clear()
        last = len(self._begun) - 1
        for number, (beginning, lane, made) in enumerate(self._begun):
            self._go_on(beginning[0])
            if new and number == last:
                self._note(beginning)
            self._launch(beginning, lane, made)
        self._begun = []
        if not new:
            self._go_on(int((self._calendar.now - self._started) * TICKS + EARLY))
        self._wait()

    def _go_on(self, tick: int) -> None:
        """Let happen what happens before a tick."""
        self.clock.run_before(tick / TICKS)
        self.clock.now = tick / TICKS

    def _note(self, beginning: Beginning) -> None:
        """Remember what begins, while there is room for it."""
        step = self._step
        if step is None:
            return
        if self._memory.full:
            self._step = None
            return
        tick, before = beginning[0], self._count - self._base
        step.known = max(step.known, tick)
        found = step.nexts.get(beginning)
        if found is None:
            found = step.nexts[beginning] = Step(tick), before
            self._memory.size += 1
        self._step, self._base = found[0], self._count

    def _launch(self, beginning: Beginning, lane: TcpLane, made: EpisodeTransfer) -> None:
        self._running += 1
        self._used.append(lane)
        if len(self._used) > MANY:
            self._used = list(dict.fromkeys(self._used))
        lane.path.own.rate = beginning[4]
        made.inner = TcpTransfer(lane, Window(self._law), made.bits, self._end, made, opened=False)

    def _wait(self) -> None:
        if self._running and (due := self.clock.next_time) < inf:
            self._wake_by(max(self._calendar.now, self._when(ceil(due * TICKS))))

    def _end(self, made: EpisodeTransfer) -> None:
        again = made.inner.again_bits if made.inner is not None else 0
        self._hear(made, again, ends=True)
        self._leave()

    def _leave(self) -> None:
        """Let a message be over; with the last one, find when the last queue is empty."""
        self._running -= 1
        if self._running:
            return
        self._quiet = max([lane.path.empty_at(self.clock.now) for lane in self._used])
        if self._step is not None:
            self._step.quiet = self._quiet

    def change(self, made: EpisodeTransfer, rate: float) -> None:
        """Take a change of the rate at which bits of a message arrive, bit/s."""
        self._hear(made, rate, ends=False)

    def _hear(self, made: EpisodeTransfer, value: float, *, ends: bool) -> None:
        """Take what a simulated message tells; it is new unless it was told before."""
        self._seen += 1
        if self._seen <= self._count:
            return
        told, step = (ceil(self.clock.now * TICKS), made.number, value, ends), self._step
        if self._foretells and step is not None:
            step.told.append(told)
            self._memory.size += 1
            return
        self._count += 1
        if step is not None and self._count - self._base > len(step.told):
            step.told.append(told)
            self._memory.size += 1
        self._plan(made, told)

    # What only a simulated message knows.

    def observe(self, made: EpisodeTransfer) -> TcpTransfer:
        """Return a message, simulated to the present."""
        if not self._simulated:
            self._simulate(new=False)
        else:
            self._go_on(int((self._calendar.now - self._started) * TICKS + EARLY))
            self._wait()
        if made.inner is None:
            raise RuntimeError("a message is observed that has not begun")
        return made.inner

    def stop(self, made: EpisodeTransfer, inner: TcpTransfer) -> None:
        """Stop a message; what follows is not remembered."""
        self._open -= 1
        self._step = None
        made.over = True
        if not inner.over:
            inner.stop()
            self._leave()
