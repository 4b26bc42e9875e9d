"""Laws of the handshake of a connection: a round trip of small packets, which queues may drop.

A SYN is repeated until it is answered; the confirmation of the answer precedes data.
"""

from typing import Any

from fedsim.addons.tcp.receiving import ANSWER, OPTIONS, SYN
from fedsim.addons.tcp.transfers import send
from fedsim.addons.tcp.ways import forward_one
from fedsim.core.laws import law

FIRST_TIMEOUT = 1.0
"""First timeout of a SYN, s; doubled at each repetition: RFC 6298."""

LINEAR = 4
"""Number of timeouts before Linux starts to double them: `tcp_syn_linear_timeouts`."""


@law
def begin_handshake(t: Any) -> None:
    """Begin the handshake of a message's connection."""
    t.syn_timeout, t.linear = FIRST_TIMEOUT, LINEAR if t.linux else 0
    t.begun, t.answered, t.syn_over, t.confirmed = 0.0, False, False, False
    send_syn(t, None)


@law
def send_syn(t: Any, _: None = None) -> None:
    """Send the SYN, and schedule its repetition."""
    if t.syn_over or t.answered:
        return
    path, now = t.path, t.calendar.now
    t.begun = now
    idle, lasts = t.lane.loss is None, 0.0
    for k in range(len(path.stages)):
        stage = path.stages[k]
        lasts += stage.queue.lasts(OPTIONS)
        # Packets of other lanes may enter a shared queue later.
        idle = idle and not stage.shared and stage.queue.free <= now
    if idle:
        # Nothing can delay the handshake: its end is computed at once.
        longer = OPTIONS * (path.back_bit + path.free_bit) + lasts
        t.calendar.call(now + path.trip + longer, t.end_handshake, None)
        return
    t.calendar.call(now + t.syn_timeout, t.send_syn, None)
    # Linux repeats the SYN at a constant interval first, and doubles it only afterwards.
    if t.linear:
        t.linear -= 1
    else:
        t.syn_timeout *= 2
    forward_one(t.lane, (t, SYN, path.header + OPTIONS, now, now, 0))


@law
def end_handshake(t: Any, _: None = None) -> None:
    """Confirm the answer, and send the first data."""
    # The message may have been stopped meanwhile.
    if t.syn_over:
        return
    now = t.calendar.now
    # The confirmation leaves before the first data, on the same path.
    forward_one(t.lane, (t, ANSWER, t.path.header, now, now, 0))
    t.syn_over = True
    t.window.measure(t.begun, now)
    t.window.restore_timeout()
    send(t, now, 0.0)
