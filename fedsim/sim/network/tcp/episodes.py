"""Episodes of links under TCP: from idle to idle, simulated once and replayed when they recur.

Rounds repeat: the same clients begin to send messages of the same sizes at the same times, counted
from the first of them. What follows is the same then, for all starts from idle links, with new
connections, and nothing is random. So what follows (when messages end) is stored by what has begun
before, as a tree: as long as what begins is what began before, it is replayed from there. Where
anything else begins, or one asks for more, the packets are simulated from the beginning of the
episode to the present, and on.

Times of an episode count from its beginning, in ticks: differences of times of a long run have
rounding errors, and are recognised all the same. What begins does so at a tick, and an end is
reported between two ticks, after all that begins at the first of them; so it makes no difference
whether an episode is simulated or replayed. Rates at which bits arrive are not reported, as their
integrals need exact times.

What begins while packets are simulated waits until one looks at them again, as late as no message
can have arrived: to change from clients to packets and back for each message would take longer.
"""

from collections.abc import Callable, Hashable
from math import ceil, inf
from typing import Any

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.tcp.memory import Beginning, EpisodeMemory, EpisodeStep, MessageEnd
from fedsim.sim.network.tcp.path import TcpLane
from fedsim.sim.network.tcp.worlds import PacketMessage, PacketWorld, PacketWorlds

TICKS = 2.0**24
"""In a second: 60 ns each."""

EARLY = 0.75
"""How much earlier than a tick, in ticks, what begins still belongs to it."""

REPORTED = 0.5
"""How much later than a tick, in ticks, is reported what has happened up to it."""


class EpisodeTransfer:
    """A message in an episode: see `Transfer`.

    Attributes:
        number: in its episode.
        bits, finished, token: what a bearer is called with.
        over: whether its end was reported, or it was stopped.
        inner: the simulated message, where its episode is simulated.
    """

    __slots__ = (
        "_again",
        "_episodes",
        "bits",
        "finished",
        "inner",
        "number",
        "over",
        "token",
    )

    def __init__(
        self,
        episodes: "Episodes",
        number: int,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> None:
        self._episodes, self.number, self.bits = episodes, number, bits
        self.finished, self.token = finished, token
        self.inner: PacketMessage | None = None
        self.over = False
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
        return self._episodes.observe(self).passed(self._episodes.world.now)

    def end(self, again: int) -> None:
        """Report that all has arrived."""
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


class Episodes:
    """What happens on links that some lanes share, and no others.

    Args:
        calendar: the time.
        made: makes the links with their segments, on a calendar of their own.
        memory: of earlier episodes.
        key: what these links are known by there.
        alone: whether there is a single lane, so that no other disturbs its messages.

    Attributes:
        world: the links, with the time since an episode began.
    """

    __slots__ = (
        "_alone",
        "_at",
        "_base",
        "_begun",
        "_calendar",
        "_count",
        "_due",
        "_foretells",
        "_key",
        "_lanes",
        "_memory",
        "_noted",
        "_number",
        "_open",
        "_quiet",
        "_running",
        "_seen",
        "_simulated",
        "_started",
        "_step",
        "_wakes",
        "_whole",
        "_worlds",
        "world",
    )

    def __init__(
        self,
        calendar: Calendar,
        made: tuple[PacketWorlds, Calendar],
        memory: EpisodeMemory,
        key: Hashable,
        *,
        alone: bool = False,
    ) -> None:
        self._calendar, self._worlds = calendar, made[0]
        self.world: PacketWorld = self._worlds.make(made[1])
        self._memory, self._key, self._alone = memory, key, alone
        self._foretells = False
        self._open = 0  # messages that whose ends were not reported
        self._wakes = inf  # when it looks what is due, s
        self._running = 0  # messages that are simulated
        self._quiet = -inf  # when the last queue is empty, s
        self._start_episode(0.0)

    def _start_episode(self, now: float) -> None:
        self._started = now
        self._simulated = False
        self._whole = True  # whether all that has begun is known, and nothing was stopped
        self._step: EpisodeStep | None = self._memory.root(self._key)
        self._begun: list[tuple[Beginning, TcpLane, EpisodeTransfer]] = []
        self._lanes: dict[TcpLane, int] = {}
        self._due: list[tuple[Beginning, TcpLane, EpisodeTransfer]] = []  # to be launched
        self._number = 0  # of messages that have begun
        self._noted = 0  # of these, that are in the tree if there was room
        self._at = 0  # what was reported of this step
        self._base = self._count = 0  # what was reported before this step, and until now
        self._seen = 0  # of this, what was simulated

    def start(
        self,
        lane: TcpLane,
        key: Hashable,
        bits: float,
        cap: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> EpisodeTransfer:
        """Let a message begin on a lane; what those of one key send takes as long: see `Bearer`."""
        now = self._calendar.now
        if not self._open and self._is_quiet(now):
            self._start_episode(now)
        tick = int((now - self._started) * TICKS + EARLY)
        made = EpisodeTransfer(self, self._number, bits, finished, token)
        self._number += 1
        self._open += 1
        which = self._lanes.setdefault(lane, len(self._lanes))
        beginning = (tick, key, which, bits, cap)
        begun = beginning, lane, made
        if self._whole:
            self._begun.append(begun)
        if self._simulated and self._whole and self._worlds.pay and not self.world.compiled:
            self._simulate()
            return made
        if self._simulated:
            self._due.append(begun)
            after = lane.path.surely_takes(bits, cap)  # others end no earlier for it
            self._wake_by(self._when(ceil(tick + after * TICKS)))
            return made
        found = None if self._step is None else self._step.nexts.get(beginning)
        if found is None and self._alone and made.number == 0:
            found = self._foretell(*begun)
        if found is None:
            self._simulate()
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
        """Return when is reported what has happened up to a tick, s."""
        return self._started + (tick + REPORTED) / TICKS

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
            self._report_due()
        elif self._running or self._due:
            tick = int((when - self._started) * TICKS + EARLY)
            self._launch_due()
            # Until the next event no message can begin, and none is looked at.
            other = self._calendar if self._calendar.undisturbed else None
            self.world.run_before(tick / TICKS, other, self._started + 1 / TICKS)
            self._wait()

    # MessageEnd again.

    def _follow(self, step: EpisodeStep, before: int) -> None:
        """Go on with a step that is known, after some more of this one was reported."""
        if self._step is not None:
            for end in self._step.ends[self._at : before]:
                self._plan(self._begun[end.number][2], end)
                self._count += 1
        self._step, self._at, self._base = step, 0, self._count
        self._noted = self._number
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        step = self._step
        if step is None or not self._open:
            return
        now = self._calendar.now
        if self._at < len(step.ends):
            self._wake_by(max(now, self._when(step.ends[self._at].tick)))
        else:
            self._wake_by(max(now, self._when(step.known)))

    def _report_due(self) -> None:
        """Report what is due of the step, and find out what follows where that is not known."""
        step, now = self._step, self._calendar.now
        if step is None or not self._open:
            return
        while self._at < len(step.ends):
            tick, number, again = step.ends[self._at]
            if self._when(tick) > now:
                break
            self._at += 1
            self._count += 1
            self._report((self._begun[number][2], again))
            if self._simulated or self._step is not step:
                return
        if self._open and self._at == len(step.ends) and self._when(step.known) <= now:
            self._simulate()
        else:
            self._wait_for_end()

    def _plan(self, made: EpisodeTransfer, end: MessageEnd) -> None:
        """Report an end when it is due."""
        when = max(self._calendar.now, self._when(end.tick))
        self._calendar.call(when, self._report, (made, end.again))

    def _report(self, end: tuple[EpisodeTransfer, int]) -> None:
        made, again = end
        if not made.over:
            self._open -= 1
            made.end(again)

    # Simulated.

    def _clear(self) -> None:
        """Go back to the beginning of an episode, with idle links."""
        self._running = self._seen = 0
        self.world = self._worlds.better(self.world)
        self.world.clear()

    def _foretell(
        self, beginning: Beginning, lane: TcpLane, made: EpisodeTransfer
    ) -> tuple[EpisodeStep, int] | None:
        """Simulate a message that no other disturbs to its end at once; return what follows."""
        first = self._step
        self._clear()
        self._note(beginning)
        if self._step is None or first is None:
            return None
        self._foretells = True
        self._launch(beginning, lane, made)
        self.world.run_before(inf)
        self._foretells = False
        self._step = first
        return first.nexts[beginning]

    def _simulate(self) -> None:
        """Simulate the episode from its beginning to the present."""
        self._simulated = True
        self._clear()
        self._due = [*self._begun]
        self._catch_up()
        if self.world.compiled or not self._worlds.known:
            self._forget()
        self._wait()

    def _forget(self) -> None:
        """Forget what has begun: the episode is simulated from now on as it is now."""
        self._begun, self._whole = [], False

    def _catch_up(self) -> None:
        """Simulate up to the present."""
        self._launch_due()
        self._go_on(int((self._calendar.now - self._started) * TICKS + EARLY))

    def _launch_due(self) -> None:
        """Let begin what has begun, each at its own tick."""
        due, self._due = self._due, []
        for beginning, lane, made in due:
            self._go_on(beginning[0])
            if made.number >= self._noted:
                self._note(beginning)
            self._launch(beginning, lane, made)

    def _go_on(self, tick: int) -> None:
        """Let happen what happens before a tick."""
        self.world.run_before(tick / TICKS)
        self.world.now = tick / TICKS

    def _note(self, beginning: Beginning) -> None:
        """Remember what begins next, while there is room for it."""
        self._noted += 1
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
            found = step.nexts[beginning] = EpisodeStep(tick), before
            self._memory.size += 1
        self._step, self._base = found[0], self._count

    def _launch(self, beginning: Beginning, lane: TcpLane, made: EpisodeTransfer) -> None:
        self._running += 1
        made.inner = self.world.launch(lane, beginning[4], made.bits, self._end, made)

    def _wait(self) -> None:
        """Look again when a message may have arrived."""
        if self._running and (due := self.world.first_end()) < inf:
            self._wake_by(max(self._calendar.now, self._when(ceil(due * TICKS))))

    def _end(self, made: EpisodeTransfer) -> None:
        self._hear(made, made.inner.again_bits if made.inner is not None else 0)
        self._leave()

    def _leave(self) -> None:
        """Let a message be over; with the last one, find when the last queue is empty."""
        self._running -= 1
        if self._running:
            return
        self._quiet = self.world.empty_at()
        if self._step is not None:
            self._step.quiet = self._quiet

    def _hear(self, made: EpisodeTransfer, again: int) -> None:
        """Take the end of a simulated message; it is new unless it was reported before."""
        self._seen += 1
        if self._seen <= self._count:
            return
        end, step = MessageEnd(ceil(self.world.now * TICKS), made.number, again), self._step
        if self._foretells and step is not None:
            step.ends.append(end)
            self._memory.size += 1
            return
        self._count += 1
        if step is not None and self._count - self._base > len(step.ends):
            step.ends.append(end)
            self._memory.size += 1
        self._plan(made, end)

    # What only a simulated message knows.

    def observe(self, made: EpisodeTransfer) -> PacketMessage:
        """Return a message, simulated to the present."""
        if not self._simulated:
            self._simulate()
        else:
            self._catch_up()
            self._wait()
        if made.inner is None:
            raise RuntimeError("a message is observed that has not begun")
        return made.inner

    def stop(self, made: EpisodeTransfer, inner: PacketMessage) -> None:
        """Stop a message; what follows is not remembered."""
        self._open -= 1
        self._step = None
        self._forget()
        made.over = True
        if not inner.over:
            inner.stop()
            self._leave()
