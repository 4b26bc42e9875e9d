"""The transitions of a radio: between its stages, for a promotion, as bits begin to flow and end.

They are laws (see `fedsim.core.laws`). `fedsim.sim.power.radio` has them as its methods, and the
kernel of exchanges plays them on the records of its nodes. What a transition changes beside the
radio is done by the functions at the end, which the kernel has in another form: a row, a timer, the
power that a battery supplies. `tables` are those of the kernel, and None for objects.

A radio is in a stage, or wakes up from one, or transfers bits. Three rules keep the account right:

- Each span in a stage is metered and logged once, at its end: as bits begin to flow, as the radio
  wakes up, or as the stage expires. `since` is the start of the span.
- The end of a stage is scheduled once. When its timer expires, it checks for traffic since then,
  and is postponed to the end of the time that began with the last bit. One timer per message would
  mean millions of timers, nearly all of them cancelled.
- Every timer carries the turn in which it was scheduled. A turn ends when the radio is woken or
  switched off; timers of older turns do nothing.
"""

from math import inf, nan
from typing import Any

from fedsim.core.laws import law
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import SETTLE
from fedsim.sim.power.radio_kind import Pair
from fedsim.sim.power.supply import Part

Radio = Any
"""A `RadioMeter`, or the record of a node."""


@law
def state(r: Radio) -> tuple[float, float]:
    """Return since when a radio without bits has been in its state, s, and its power, W."""
    stage = r.stages[r.stage]
    if r.waking:
        return r.ready - stage.wake_time, stage.wake_power
    return r.since, stage.power


@law
def leave(r: Radio, tables: Any) -> None:
    """Meter the time in a state up to now, and record it in a row."""
    since, watts = state(r)
    span = clock(r, tables) - since
    joules = watts * span
    if span > 0.0:
        r.joules += joules
    write_state(r, span, joules, tables)


@law
def wake(r: Radio, now: float, round_number: int, tables: Any = None) -> float:
    """Return when a radio is ready for a message, s: after a promotion, if it is idle.

    Args:
        r: the radio.
        now: the time, s.
        round_number: the number of the message's round.
        tables: see above.
    """
    r.round_number = round_number
    if r.waking:
        return float(r.ready)
    if r.stage == 0:
        return now
    resting = r.stage == r.last
    wake_time = r.stages[r.stage].wake_time
    if not resting:
        leave(r, tables)
        book(r)
    r.turn += 1
    r.armed = False
    if not (resting or wake_time):
        connect(r, now, tables)
        return now
    r.waking = True
    r.ready = now + wake_time
    set_timer(r, r.ready, False, tables)
    update_load(r)
    return float(r.ready)


@law
def promote(r: Radio, turn: int, tables: Any = None) -> None:
    """End the promotion that began in a turn."""
    if turn == r.turn:
        leave(r, tables)
        book(r)
        r.waking = False
        connect(r, clock(r, tables), tables)


@law
def connect(r: Radio, now: float, tables: Any) -> None:
    """Enter the first stage, without bits."""
    r.stage = 0
    r.since = now
    if not r.armed:
        await_expiry(r, tables)
    update_load(r)


@law
def await_expiry(r: Radio, tables: Any) -> None:
    """Set the timer of the end of a stage; the end may have passed while bits flowed."""
    r.armed = True
    due = r.since + r.stages[r.stage].time
    set_timer(r, max(due, clock(r, tables)), True, tables)


@law
def expire(r: Radio, turn: int, tables: Any = None) -> None:
    """End a stage; if there was traffic meanwhile, wait for the end of the new span instead."""
    if turn != r.turn:
        return
    r.armed = False
    if r.began[0] < inf or r.began[1] < inf:
        return  # the end of the message sets the timer again
    now = clock(r, tables)
    if now < r.since + r.stages[r.stage].time:
        await_expiry(r, tables)
        return
    leave(r, tables)
    r.stage += 1
    r.since = now
    if r.stage < r.last:
        book(r)
        await_expiry(r, tables)
        update_load(r)
    else:
        r.turn += 1
        update_load(r)
        book(r)


@law
def begin(r: Radio, up: int, rate: float, tables: Any = None) -> None:
    """Start bits in one direction; the span without bits ends.

    Args:
        r: the radio.
        up: the direction.
        rate: their rate, bit/s; 0 if `RadioMeter.change` reports it at the end of the instant.
        tables: see above.
    """
    # While waking, the promotion of this same instant is still to come, and logs the span.
    if not (r.flowing or r.waking) and r.stage != r.last:
        leave(r, tables)
        book(r)
    r.flowing |= 1 << up
    set_rate(r, up, rate)


@law
def end(r: Radio, now: float, bits: float, up: int) -> float:
    """Meter a message whose last bit has passed; return its energy, J."""
    # The radio is connected over the union of the spans of all messages. The unpaid part of it up
    # to now is one interval: it starts where the earlier of the two messages in progress began, or
    # at the end of the last payment, whichever is later. It has no gaps: while nothing is in
    # progress both `began` are infinite, and the next message sets its own. So one `paid_until`
    # serves both directions, and the message that ends first pays for time that two messages share.
    #
    # Comparisons instead of min and max: this runs twice per client and round.
    began = r.began  # bits of both directions flow until now
    on = began[0]
    if began[1] < on:  # noqa: PLR1730
        on = began[1]
    if on < r.paid_until:  # noqa: PLR1730
        on = r.paid_until
    joules: float = r.per_bit[up] * bits
    if on < now:
        joules += r.held * (now - on)
    if r.extras:
        joules = add_extras(r, joules, now, up)
    r.paid_until = now
    began[up] = inf
    r.joules += joules
    return joules


@law
def mark_idle(r: Radio, up: int, tables: Any = None) -> None:
    """Mark one direction as idle; the tail may begin."""
    flowed = r.flowing
    r.began[up] = inf
    r.flowing &= ~(1 << up)
    waits = not (r.flowing or r.waking) and r.stage != r.last
    if flowed and waits:
        r.stage = 0
        r.since = clock(r, tables)
    update_load(r)
    # Not while the other direction is active: the meter counts a message at its end.
    if flowed and not r.flowing:
        book(r)
    # Without bits its message was aborted, and the tail continues.
    if waits and not r.armed:
        await_expiry(r, tables)


@law
def switch_off(r: Radio, tables: Any = None) -> None:
    """Become idle now: the radio has lost its network, or its power."""
    if r.waking or r.stage != r.last:
        if r.waking or not r.flowing:
            leave(r, tables)
        r.stage = r.last
        r.since = clock(r, tables)
        r.waking = False
        r.armed = False
        r.turn += 1
    update_load(r)
    book(r)


# What else a transition changes, for objects. Kernels have other forms of these functions.


def clock(r: Radio, _: object) -> float:
    """Return the time, s."""
    now: float = r.calendar.now
    return now


def set_timer(r: Radio, when: float, expiry: bool, _: object) -> None:
    """Call `expire`, or `promote`, at a time."""
    if expiry:
        # Last in its instant: a message at the very end of the tail still finds it connected.
        r.calendar.call(when, r.expire, r.turn, SETTLE)
    else:
        r.awake[r] = None
        r.calendar.call(when, r.promote, r.turn)


def write_state(r: Radio, span: float, joules: float, _: object) -> None:
    """Record the time in a state that ends now; none if it took no time."""
    name = "" if r.waking else r.stages[r.stage].name
    detail = r.log.word(name) if name else -1
    if span > 0.0:
        r.traffic.joules += joules
        r.log.append(
            r.calendar.now,
            span,
            Event.PROMOTION if r.waking else Event.TAIL,
            r.node,
            NO_PEER,
            r.round_number,
            joules=joules,
            state_of_charge=nan if r.supply is None else r.supply.share,
            detail=detail,
        )


def book(r: Radio) -> None:
    """Settle with the battery, at an instant at which the meter is complete."""
    if r.supply is not None:
        r.supply.book(Part.RADIO, r.joules)


def update_load(r: Radio) -> None:
    """Update the load of the battery to the present power."""
    if r.supply is not None:
        r.supply.set(Part.RADIO, r.power)


def replaced(pair: Pair, up: int, value: float) -> Pair:
    """Return a pair with a value in one place; the same pair if it has that value already."""
    if pair[up] == value:
        return pair
    return (pair[0], value) if up else (value, pair[1])


def set_rate(r: Radio, up: int, rate: float) -> None:
    """Set the rate of bits that begin to flow, bit/s."""
    if r.supply is not None:  # without a battery nothing needs the present power
        # An instantaneous message draws no power.
        r.rates = replaced(r.rates, up, rate if rate < inf else 0.0)
        r.update_load()


def add_extras(r: Radio, joules: float, now: float, up: int) -> float:
    """Return the energy of a message with its time on air and collisions, J."""
    return float(r.add_extras(joules, now, up))
