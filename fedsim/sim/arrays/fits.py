"""Choice between arrays and events: a run is vectorised if nothing reacts within a round.

Runs of peers use a compiled kernel (`fedsim.sim.exchanges`) in place of arrays. It fits if an
exchange depends on nothing but the lengths of the messages.
"""

import os
from collections.abc import Iterator
from math import inf

from fedsim.core.blocks.nature import WITHIN_ROUNDS
from fedsim.core.ports import ClientId
from fedsim.physics.overlay import Overlay
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.signals import Constant
from fedsim.physics.topology import Topology, star
from fedsim.protocol.participation import Informed
from fedsim.protocol.transport import Envelope
from fedsim.protocol.wrapping import Wrapper
from fedsim.sim.arrays.classes import classes, plan_links
from fedsim.sim.config import WorldConfig, what_follows
from fedsim.sim.fleet import Roster
from fedsim.sim.members import ClientConfig

VARIABLE = "FEDSIM_ROUNDS"
"""Environment variable: "events" runs all rounds event by event; "arrays" vectorises rounds of few
clients, too."""

_DEADLINES = {"deadline", "give_up"}

_RARE_LOSS = 1e-6
"""Largest residual packet loss for which the vectorised path is attempted; an actual loss restarts
the run event by event."""

_FEW, _FEW_TOGETHER = 200, 16
"""Smallest cohorts for which arrays are faster than events: if handlers run one by one, and if one
handler runs for many clients. An array operation costs as much for one client as for a hundred; see
"Rounds in arrays" in docs/explanation/speed.md."""

_ROUNDS, _MESSAGES = 100, 20_000
"""Peers need fewer messages than `_MESSAGES` in `_ROUNDS` rounds to be faster without the kernel,
which takes time to load."""


def why_events(setup: WorldConfig) -> str:
    """Return why the rounds of a world run event by event; empty if they run in arrays.

    Both produce the same log, byte by byte, in different time.
    """
    if os.environ.get(VARIABLE) == "events":
        return f"{VARIABLE} is set to events"
    if setup.overlay is not None:
        return next(_of_peers(setup), "")
    # The world first: its reasons are cheap, while those of a fleet visit every class of clients.
    return next(_of_world(setup), "") or next(_of_fleet(setup), "")


def why_slower(setup: WorldConfig) -> str:
    """Return why arrays would be slower than events for a world; empty if they are not."""
    if os.environ.get(VARIABLE) == "arrays":
        return ""
    if isinstance(setup.overlay, Overlay):
        edges = sum(map(len, setup.overlay.neighbours))
        few = edges * min(setup.stop.rounds, _ROUNDS) < _MESSAGES
        return "there are few messages, and loading a kernel takes longer" if few else ""
    count = len(setup.fleet)
    # Only the clients of one round count.
    if setup.participation.asked is not None:
        count = min(count, setup.participation.asked)
    if count >= _FEW:
        return ""
    if count >= _FEW_TOGETHER:
        from fedsim.sim.arrays.together import may_be_alike

        if may_be_alike(setup):
            return ""
    return f"only {count} clients are asked at once; arrays pay off with more"


def why_objects(setup: WorldConfig) -> str:
    """Return why no kernel simulates the packets of a network; empty if one does or none exist.

    Both produce the same times, to the last bit.
    """
    return setup.network.why_objects(Roster.of(setup.fleet).kinds, setup.topology)


def _of_world(setup: WorldConfig) -> Iterator[str]:
    """Yield reasons for events that concern the whole world."""
    yield from _of_network(setup)
    yield from _of_protocol(setup)
    if foreign := _foreign(setup):
        yield foreign
    if setup.evaluator.choice.get("evaluator") == "vmap":
        yield "the last bits of vmap depend on what is computed at once"


def _of_network(setup: WorldConfig) -> Iterator[str]:
    if setup.hierarchy is not None:
        yield "gateways have rounds of their own with those below them"
    yield from filter(None, (nature.first(WITHIN_ROUNDS) for nature in setup.network.natures()))


def _of_protocol(setup: WorldConfig) -> Iterator[str]:
    policy, silence = setup.participation, setup.silence
    if policy.asynchronous:
        yield "an asynchronous server has no rounds"
    if isinstance(policy, Informed):
        yield f"participation.kind {policy.kind} depends on the replies of earlier rounds"
    # A deadline is no reaction where it is not missed; see `fedsim.sim.arrays.closing`.
    if early := [rule.key for rule in policy.early() if rule.key not in _DEADLINES]:
        yield f"participation.{early[0]} may close a round before all have replied"
    # Silence is signalled by a beacon, or inferred from a deadline; arrays handle either one.
    if silence.beacon and silence.closes_after < inf:
        yield f"silence.kind {silence.kind} has both beacons and a deadline"
    if not silence.beacon and silence.closes_after == inf:
        yield f"silence.kind {silence.kind} has neither beacons nor a deadline"
    yield from _end_within_rounds(setup)


def _end_within_rounds(setup: WorldConfig) -> Iterator[str]:
    """Yield the stop rules that may end a run within a round."""
    for rule in setup.stop.rules:
        if rule.mid_round:
            yield f"stop.{rule.key} may end a run within a round"


def _innermost(setup: WorldConfig) -> object:
    """Return the method that decides what is awaited: that within wrappers that add nothing."""
    inner: object = setup.algorithm
    while isinstance(inner, Wrapper) and inner.in_arrays:
        inner = inner.method
    return inner


def _foreign_part(setup: WorldConfig, *parts: str) -> str:
    """Return which method of an algorithm may await more than messages and work."""
    inner = _innermost(setup)
    for part in parts:
        # The first class that defines the method: a subclass of a user may override it.
        owner = next((cls for cls in type(inner).__mro__ if part in vars(cls)), object)
        if not (owner.__module__.startswith("fedsim.algorithms.") or vars(owner).get("in_arrays")):
            return f"{owner.__name__}.{part} may wait for more than messages and work"
    return ""


def _foreign(setup: WorldConfig) -> str:
    """Return what of a star's algorithm may await more than messages and work."""
    if what_follows(setup.algorithm) is not None:
        return f"{type(setup.algorithm).__name__}.afterwards goes on after replies"
    return _foreign_part(setup, "serve", "handle")


def _of_fleet(setup: WorldConfig) -> Iterator[str]:
    """Yield reasons for events that concern clients, their batteries and their routes."""
    kinds = Roster.of(setup.fleet).kinds
    links = setup.topology or star(len(kinds))
    for _, kind in kinds.runs:
        yield from _of_client(kind)
        if kind.battery is not None:
            yield from _of_battery(kind, setup.participation.least_charge)
            if getattr(method := _innermost(setup), "reads_charge", False):
                yield f"{type(method).__name__}.handle reads the state of charge"
    plan, lanes = plan_links(kinds, links)
    shared = [lane.up for _, lane in lanes if plan.links(lane)]
    # Zero-duration work ends in the instant in which messages arrive, and its order depends on all
    # of them.
    if False in shared and any(not kind.device.seconds(1.0, 1.0) for _, kind in kinds.runs):
        yield "work of no time follows messages that share a link"
    # Each message then begins by itself. Of thousands, some end at one instant, by rounding, and
    # their order would depend on all other messages of the link.
    if True in shared and any(kind.device.slowdown.drawn for _, kind in kinds.runs):
        yield "messages share a link after work whose times are drawn"
    for _, (kind, routes) in classes(kinds, links).runs:
        if any(route.relays for route in routes):
            # A relay spends energy on a message in the middle of its way, which only events
            # resolve.
            yield "clients forward the messages of others"
        least = kind.radio.latency + min(route.latency for route in routes)
        if kind.battery is not None and kind.radio.states.stateful and not least:
            yield f"a battery follows the radio {kind.radio.kind}, which has states and no latency"
    yield from _of_links(kinds, links)


def _of_links(kinds: RunLengthSequence[ClientConfig], links: Topology) -> Iterator[str]:
    """Yield links whose messages do not share one link fairly, in one direction."""
    plan, lanes = plan_links(kinds, links)
    directions = dict[int, bool]()
    followed = {link for _, lane in lanes if lane.watched for link in plan.links(lane)}
    for _, lane in lanes:
        for link in (limiting := plan.links(lane)):
            name = links.links[link].name or link
            if link in followed:
                yield f"batteries follow the rates of messages that share the link {name}"
            # Simple: the lane has one contended link, which is shared fairly.
            elif not plan.simple(lane):
                why = "with messages that have other links" if len(limiting) > 1 else "not fairly"
                yield f"messages share the link {name} {why}"
            elif directions.setdefault(link, lane.up) is not lane.up:
                yield f"messages up and down share the link {name}"


def _of_client(kind: ClientConfig) -> Iterator[str]:
    radio = kind.radio
    if reaction := kind.availability.reaction:
        yield reaction
    if radio.loss.mean and radio.loss.residual(radio.most_tries) > _RARE_LOSS:
        yield "packets may be lost for good"
    rates = kind.rates.up, kind.rates.down
    if any(rate.constant == 0 for rate in rates):
        yield f"the radio {radio.kind} has no rate"
    # The stage would be entered and left in one instant: the radio may be woken as its bits begin
    # to flow.
    if radio.states.stages[0].name and not radio.latency:
        yield f"the radio {radio.kind} has no latency"
    if radio.states.stateful and not all(rate.continuous for rate in rates):
        yield f"the radio {radio.kind} has states, and is silent after a message"


def _of_battery(kind: ClientConfig, least_charge: float) -> Iterator[str]:
    """Yield reasons why a battery, or its power, changes within a round."""
    if not isinstance(kind.source, Constant) or kind.source.peak:
        yield "a battery is charged"
    elif not kind.store(least_charge).ready:
        yield "a battery is below its threshold as the run begins"
    # The power of a radio follows its rate, which changes within a message.
    if any(rate.signal is not None for rate in (kind.rates.up, kind.rates.down)):
        yield f"a battery follows the rate of the radio {kind.radio.kind}, which changes"


# Peers.


def _of_peers(setup: WorldConfig) -> Iterator[str]:
    """Yield reasons for events among peers: dependence on more than the lengths of messages."""
    yield from _between_peers(setup)
    if not setup.aggregation.adds_up:
        yield f"aggregation.kind {setup.aggregation.kind} mixes vectors"
    if hasattr(setup.algorithm, "answer"):
        yield "nodes meet in pairs"
    if foreign := _foreign_part(setup, "live"):
        yield foreign
    if len(kinds := getattr(setup.algorithm, "messages", ())) != 1:
        yield f"the method has {len(kinds)} kinds of messages"
    if setup.transport.to_server(_ignore) is not _ignore:
        yield "receivers decode messages"
    if min(setup.silence.closes_after, setup.participation.closes_after) < inf:
        yield "an exchange may end before all messages have arrived"
    yield from _end_within_rounds(setup)
    if setup.evaluator.choice.get("evaluator") == "vmap":
        yield "the last bits of vmap depend on what is computed at once"
    for _, kind in Roster.of(setup.fleet).kinds.runs:
        yield from _of_peer(kind)


def _between_peers(setup: WorldConfig) -> Iterator[str]:
    """Yield reasons for events that concern the graph of peers and the links between them."""
    overlay = setup.overlay
    if not isinstance(overlay, Overlay):
        yield "the graph of peers changes"
    elif overlay.directed:
        yield "edges between peers lead one way"
    elif not all(overlay.neighbours):
        yield "a node has no neighbour"
    yield from filter(None, (nature.first(WITHIN_ROUNDS) for nature in setup.network.natures()))
    links = setup.topology
    if links is not None and (
        links.paths is not None
        or any(route.links or route.latency for route in (*links.up, *links.down))
    ):
        yield "links or latencies are between peers"


def _of_peer(kind: ClientConfig) -> Iterator[str]:
    radio, states = kind.radio, kind.radio.states
    if kind.battery is not None:
        yield "nodes have batteries"
    if not kind.availability.always:
        yield "nodes come and go"
    if radio.loss.mean:
        yield "packets may be lost"
    for rate in (kind.rates.up, kind.rates.down):
        if not rate.continuous:
            yield f"the radio {radio.kind} is silent after a message"
        elif not rate.constant:
            yield f"the radio {radio.kind} has no constant rate"
        elif rate.constant == inf and not radio.latency:
            yield f"messages of the radio {radio.kind} may take no time"
    if states.stateful and (
        len(states.stages) > 2
        or states.stages[0].name
        or any(stage.cycle for stage in states.stages)
    ):
        yield f"the radio {radio.kind} has stages, or cannot be reached at all times"


def _ignore(client: ClientId, envelope: Envelope) -> None:
    """Ignore what has arrived."""
