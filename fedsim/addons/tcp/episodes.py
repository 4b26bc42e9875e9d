"""Episodes of links under TCP: from idle to idle, simulated once and replayed when they recur.

Rounds repeat: the same clients start messages of the same sizes at the same times, relative to the
first start. An episode begins with idle links and new connections, and nothing in it is random. So
equal starts lead to equal ends. The ends are stored in a tree whose edges are the starts of
messages. While the present starts follow a known branch, the ends are replayed from the tree. If
another message starts, or a caller asks for more than ends, the packets are simulated from the
beginning of the episode to the present and beyond.

Times of an episode are relative to its beginning, in ticks. Ticks absorb the rounding errors in
differences of the times of a long run. A start belongs to a tick, and an end is reported between
two ticks, after all starts of the first of them. So simulated and replayed episodes report the same
times. Rates of arriving bits are not reported, since their integrals need exact times.

While packets are simulated, new messages are buffered until the earliest possible completion. This
avoids a switch between clients and packets for every message.
"""

from collections.abc import Callable, Hashable
from math import ceil, inf
from typing import Any

from fedsim.addons.tcp.memory import Beginning, EpisodeMemory, EpisodeStep, MessageEnd
from fedsim.addons.tcp.path import TcpLane
from fedsim.addons.tcp.worlds import PacketMessage, PacketWorld, PacketWorlds
from fedsim.sim.engine.calendar import Calendar

TICKS = 2.0**24
"""Ticks per second: 60 ns each."""

EARLY = 0.75
"""A start this many ticks before a tick still belongs to that tick."""

REPORTED = 0.5
"""Ends up to a tick are reported this many ticks after it."""


class EpisodeTransfer:
    """A message of an episode; implements `Transfer`.

    Attributes:
        number: the index of the message in its episode.
        bits, finished, token: the arguments of the bearer's `start`.
        over: whether the end was reported or the message was stopped.
        inner: the simulated message, if its episode is simulated.
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
        """The bits that were retransmitted so far."""
        if not self.over:
            self._again = self._episodes.observe(self).again_bits
        return self._again

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`, the present."""
        if self.over:
            return self.bits
        return self._episodes.observe(self).passed(self._episodes.world.now)

    def end(self, again: int) -> None:
        """Report that all bits have arrived."""
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
    """The episodes of a set of links that only these lanes share.

    State of an episode: while it is replayed, `_step` is the present node of the tree and
    `_reported` counts its reported ends. `_simulated` says whether packets are simulated instead.
    Then `_step` is the node to which ends are appended, or None if the tree is full or the episode
    is not repeatable. `_complete` says whether `_begun` still lists all starts, so that the
    simulation can begin anew.

    Args:
        calendar: the calendar of the run.
        parts: creates simulated links, with the calendar on which they run.
        memory: the tree of earlier episodes.
        key: the key of these links in the memory.
        alone: whether there is a single lane, so that no other disturbs its messages.

    Attributes:
        world: the simulated links; their time is relative to the beginning of the episode.
    """

    __slots__ = (
        "_alone",
        "_base",
        "_begun",
        "_calendar",
        "_complete",
        "_count",
        "_due",
        "_foretelling",
        "_key",
        "_lanes",
        "_memory",
        "_noted",
        "_number",
        "_open",
        "_quiet",
        "_reported",
        "_resimulated",
        "_running",
        "_simulated",
        "_started",
        "_step",
        "_wakes",
        "_worlds",
        "world",
    )

    def __init__(
        self,
        calendar: Calendar,
        parts: tuple[PacketWorlds, Calendar],
        memory: EpisodeMemory,
        key: Hashable,
        *,
        alone: bool = False,
    ) -> None:
        self._calendar, self._worlds = calendar, parts[0]
        self.world: PacketWorld = self._worlds.make(parts[1])
        self._memory, self._key, self._alone = memory, key, alone
        self._foretelling = False
        self._open = 0  # messages not yet reported as complete
        self._wakes = inf  # time of the next wake-up, s
        self._running = 0  # messages in the simulation
        self._quiet = -inf  # time at which the last queue is empty, s
        self._start_episode(0.0)

    def _start_episode(self, now: float) -> None:
        self._started = now
        self._simulated = False
        self._complete = True  # whether `_begun` lists all starts, and none was stopped
        self._step: EpisodeStep | None = self._memory.root(self._key)
        self._begun: list[tuple[Beginning, TcpLane, EpisodeTransfer]] = []
        self._lanes: dict[TcpLane, int] = {}
        self._due: list[tuple[Beginning, TcpLane, EpisodeTransfer]] = []  # buffered
        self._number = 0  # starts so far
        self._noted = 0  # starts that were offered to the tree
        self._reported = 0  # reported ends of this step
        self._base = self._count = 0  # reported ends before this step, and in total
        self._resimulated = 0  # ends that the simulation has reached

    def start(
        self,
        lane: TcpLane,
        key: Hashable,
        bits: float,
        cap: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> EpisodeTransfer:
        """Start a message on a lane; see `Bearer`. Lanes with equal keys take equal times."""
        now = self._calendar.now
        # An episode begins with idle links: no message under way, and no packet, such as a late
        # acknowledgement, in any queue.
        if not self._open and self._is_quiet(now):
            self._start_episode(now)
        # Rounded up by 3/4: differences of times that are equal but for rounding, just below a
        # tick, belong to that tick.
        tick = int((now - self._started) * TICKS + EARLY)
        message = EpisodeTransfer(self, self._number, bits, finished, token)
        self._number += 1
        self._open += 1
        # Lanes are numbered by their first use in the episode: which clients they belong to does
        # not matter for times.
        lane_number = self._lanes.setdefault(lane, len(self._lanes))
        beginning = (tick, key, lane_number, bits, cap)
        start = beginning, lane, message
        if self._complete:
            self._begun.append(start)
        if self._simulated and self._complete and self._worlds.pay and not self.world.compiled:
            self._simulate()
            return message
        if self._simulated:
            self._due.append(start)
            # The new message ends no earlier than `after`, and delays others at most. So the
            # simulation may rest until then.
            after = lane.path.surely_takes(bits, cap)
            self._wake_by(self._when(ceil(tick + after * TICKS)))
            return message
        known = None if self._step is None else self._step.nexts.get(beginning)
        if known is None and self._alone and message.number == 0:
            known = self._foretell(*start)
        if known is None:
            self._simulate()
        else:
            self._follow(*known)
        return message

    def _is_quiet(self, now: float) -> bool:
        if not self._number:
            return True
        quiet = self._quiet
        # While replaying, the tree knows when the links are empty.
        if not self._simulated and self._step is not None:
            quiet = self._step.quiet
        return int((now - self._started) * TICKS + EARLY) >= quiet * TICKS

    def _when(self, tick: int) -> float:
        """Return when events up to a tick are reported, s."""
        return self._started + (tick + REPORTED) / TICKS

    def _wake_by(self, when: float) -> None:
        if when < self._wakes:
            self._wakes = when
            self._calendar.call(when, self._wake, when)

    def _wake(self, when: float) -> None:
        """Report due ends, or simulate packets up to now."""
        # Superseded by an earlier wake-up; calls of the calendar cannot be cancelled.
        if when != self._wakes:
            return
        self._wakes = inf
        if not self._simulated:
            self._report_due()
        elif self._running or self._due:
            tick = int((when - self._started) * TICKS + EARLY)
            self._launch_due()
            # Up to the next event of the run no message starts, and no caller observes one. So the
            # packets may be simulated that far ahead.
            other = self._calendar if self._calendar.undisturbed else None
            self.world.run_before(tick / TICKS, other, self._started + 1 / TICKS)
            self._wait()

    # Replay.

    def _follow(self, step: EpisodeStep, before: int) -> None:
        """Proceed to a known step, after `before` ends of the present one."""
        if self._step is not None:
            # These ends come before the new start, by too little to have been reported so far.
            for end in self._step.ends[self._reported : before]:
                self._plan(self._begun[end.number][2], end)
                self._count += 1
        self._step, self._reported, self._base = step, 0, self._count
        self._noted = self._number
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        step = self._step
        if step is None or not self._open:
            return
        now = self._calendar.now
        if self._reported < len(step.ends):
            self._wake_by(max(now, self._when(step.ends[self._reported].tick)))
        else:
            self._wake_by(max(now, self._when(step.known)))

    def _report_due(self) -> None:
        """Report due ends of the step; simulate if the tree knows no further."""
        step, now = self._step, self._calendar.now
        if step is None or not self._open:
            return
        while self._reported < len(step.ends):
            tick, number, again = step.ends[self._reported]
            if self._when(tick) > now:
                break
            self._reported += 1
            self._count += 1
            self._report((self._begun[number][2], again))
            # The callback may have started a message, which changes the step.
            if self._simulated or self._step is not step:
                return
        if self._open and self._reported == len(step.ends) and self._when(step.known) <= now:
            self._simulate()
        else:
            self._wait_for_end()

    def _plan(self, message: EpisodeTransfer, end: MessageEnd) -> None:
        """Schedule the report of an end."""
        when = max(self._calendar.now, self._when(end.tick))
        self._calendar.call(when, self._report, (message, end.again))

    def _report(self, end: tuple[EpisodeTransfer, int]) -> None:
        message, again = end
        if not message.over:
            self._open -= 1
            message.end(again)

    # Simulated.

    def _clear(self) -> None:
        """Reset the simulated links to the idle state at the beginning of the episode."""
        self._running = self._resimulated = 0
        self.world = self._worlds.better(self.world)
        self.world.clear()

    def _foretell(
        self, beginning: Beginning, lane: TcpLane, message: EpisodeTransfer
    ) -> tuple[EpisodeStep, int] | None:
        """Simulate an undisturbed message to its end at once; return the step that follows."""
        first = self._step
        self._clear()
        self._note(beginning)
        # The memory is full: the message is simulated as usual.
        if self._step is None or first is None:
            return None
        self._foretelling = True
        self._launch(beginning, lane, message)
        self.world.run_before(inf)
        self._foretelling = False
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
        """Release the list of starts: the simulation can no longer begin anew."""
        self._begun, self._complete = [], False

    def _catch_up(self) -> None:
        """Simulate up to the present."""
        self._launch_due()
        # Up to the present tick, exclusive: starts of this tick still come first.
        self._go_on(int((self._calendar.now - self._started) * TICKS + EARLY))

    def _launch_due(self) -> None:
        """Start the buffered messages, each at its own tick."""
        due, self._due = self._due, []
        for beginning, lane, message in due:
            self._go_on(beginning[0])
            if message.number >= self._noted:
                self._note(beginning)
            self._launch(beginning, lane, message)

    def _go_on(self, tick: int) -> None:
        """Simulate events before a tick, and set the clock to that tick."""
        self.world.run_before(tick / TICKS)
        self.world.now = tick / TICKS

    def _note(self, beginning: Beginning) -> None:
        """Add the next start to the tree, if there is room."""
        self._noted += 1
        step = self._step
        if step is None:
            return
        if self._memory.full:
            self._step = None
            return
        tick, before = beginning[0], self._count - self._base
        # A step is known up to the tick at which another message started, even without any end.
        step.known = max(step.known, tick)
        known = step.nexts.get(beginning)
        if known is None:
            known = step.nexts[beginning] = EpisodeStep(tick), before
            self._memory.size += 1
        self._step, self._base = known[0], self._count

    def _launch(self, beginning: Beginning, lane: TcpLane, message: EpisodeTransfer) -> None:
        self._running += 1
        message.inner = self.world.launch(lane, beginning[4], message.bits, self._end, message)

    def _wait(self) -> None:
        """Wake up when a message may have arrived."""
        if self._running and (due := self.world.first_end()) < inf:
            self._wake_by(max(self._calendar.now, self._when(ceil(due * TICKS))))

    def _end(self, message: EpisodeTransfer) -> None:
        self._record_end(message, message.inner.again_bits if message.inner is not None else 0)
        self._leave()

    def _leave(self) -> None:
        """Count a finished message; after the last one, store when all queues are empty."""
        self._running -= 1
        if self._running:
            return
        self._quiet = self.world.empty_at()
        if self._step is not None:
            self._step.quiet = self._quiet

    def _record_end(self, message: EpisodeTransfer, again: int) -> None:
        """Record a completion unless it was replayed already."""
        self._resimulated += 1
        # A simulation that begins anew reaches the ends that were replayed before: they are in
        # order, so that counting identifies them.
        if self._resimulated <= self._count:
            return
        end, step = MessageEnd(ceil(self.world.now * TICKS), message.number, again), self._step
        if self._foretelling and step is not None:
            step.ends.append(end)
            self._memory.size += 1
            return
        self._count += 1
        if step is not None and self._count - self._base > len(step.ends):
            step.ends.append(end)
            self._memory.size += 1
        self._plan(message, end)

    # Queries that only a simulated message can answer.

    def observe(self, message: EpisodeTransfer) -> PacketMessage:
        """Return a message, simulated to the present."""
        if not self._simulated:
            self._simulate()
        else:
            self._catch_up()
            self._wait()
        if message.inner is None:
            raise RuntimeError("a message is observed that has not begun")
        return message.inner

    def stop(self, message: EpisodeTransfer, inner: PacketMessage) -> None:
        """Cancel a message; the tree does not record what follows."""
        self._open -= 1
        # What follows a stop would not recur, so it does not enter the tree.
        self._step = None
        self._forget()
        message.over = True
        if not inner.over:
            inner.stop()
            self._leave()
