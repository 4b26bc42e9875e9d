"""Reports: quantities that clients send with their replies, or before them as candidates.

A reply with reports belongs to a class of its own, derived from the method's class, with one more
payload for each quantity. So it is encoded, charged and decoded like any other message, and the
method reads the same fields as without reports.

Candidates receive the message of the round first, and answer with their reports only. Then those
that the policy chooses receive an empty message, `Chosen`, and handle the message of the round.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np

from fedsim.core.ports import SILENCE, Array, Client, ClientId, Message, Payload, Silence
from fedsim.protocol.participation import Informed, Participation
from fedsim.protocol.participation.informed import Report, Sent

_FIELD = "report_"

Handle = Callable[[Any, Any], Awaitable[Message | Silence]]
"""`Algorithm.handle`."""


@dataclass(frozen=True, slots=True)
class Chosen(Message):
    """Server to client: handle the message that you received as a candidate."""


CHOSEN = Chosen()
"""The message to chosen candidates, a shared singleton."""


class Reports(Message):
    """Client to server: the reports of a candidate."""

    __slots__ = ()


def reply_type(kind: type[Message], reports: tuple[Report, ...]) -> type[Message]:
    """Return the class of a reply with reports; it keeps the label of the method's class."""
    return _derive(kind, kind.__name__, reports)


def report_type(reports: tuple[Report, ...]) -> type[Message]:
    """Return the class of a candidate's reports."""
    return _derive(Reports, Reports.__name__, reports)


def candidate_type(kind: type[Message]) -> type[Message]:
    """Return the class of a message to candidates, with the payloads of the method's."""
    return _derive(kind, kind.__name__, ())


def _derive(kind: type[Message], name: str, reports: tuple[Report, ...]) -> type[Message]:
    """Return a derived class; the same arguments give the same class."""
    derived = _DERIVED.get((kind, reports))
    if derived is None:
        fields = [(_FIELD + report, Payload) for report in reports]
        # A subclass, so that the method's code, which reads fields by name, works on it unchanged.
        derived = make_dataclass(name, fields, bases=(kind,), frozen=True, slots=True, eq=False)
        _DERIVED[kind, reports] = derived
    return derived


_DERIVED: dict[tuple[type[Message], tuple[Report, ...]], type[Message]] = {}


def message_types(
    types: Sequence[type[Message]], policy: Participation
) -> tuple[type[Message], ...]:
    """Return the classes of a method's messages, and those that a policy adds."""
    if not isinstance(policy, Informed):
        return tuple(types)
    reports, more = policy.reported, list[type[Message]]()
    if policy.candidates_asked and reports:
        more += [Chosen, report_type(reports), *map(candidate_type, types)]
    elif reports:
        more += [reply_type(kind, reports) for kind in types]
    return (*types, *more)


def is_for_candidates(message: Message) -> bool:
    """Return whether a message asks candidates only for their reports."""
    kind = type(message)
    # Only `candidate_type` derives a class without reports.
    return _DERIVED.get((kind.__mro__[1], ())) is kind


def is_report(field: str) -> bool:
    """Return whether a field of a message is a reported quantity."""
    return field.startswith(_FIELD)


def to_candidates(sent: Sent) -> Sent:
    """Return a message, or one per client, in the form that candidates receive."""
    if isinstance(sent, Mapping):
        return {client: _to_candidate(message) for client, message in sent.items()}
    return _to_candidate(sent)


def _to_candidate(message: Message) -> Message:
    return candidate_type(type(message))(*message.payloads())


def read_reports(message: Message, reports: tuple[Report, ...]) -> tuple[float, ...]:
    """Return the reported quantities of a reply; NaN for missing ones."""
    payloads = (getattr(message, _FIELD + report, None) for report in reports)
    return tuple(np.nan if payload is None else float(payload.values) for payload in payloads)


def first_vector(message: Message) -> Array | None:
    """Return the first vector, shape (d,), among the payloads of a message; None for none."""
    for payload in message.payloads():
        if payload.values.ndim == 1:
            return payload.values
    return None


def reporting(handle: Handle, policy: Participation) -> Handle:
    """Return a handler whose replies have the reports that a policy asks for.

    Args:
        handle: the handler of the method.
        policy: the participation policy of the scenario.
    """
    reports = policy.reported if isinstance(policy, Informed) else ()
    if not isinstance(policy, Informed) or not reports:
        return handle
    if policy.candidates_asked:
        return _candidates(handle, reports)

    async def answer(client: Any, message: Message) -> Message | Silence:
        reply = await handle(client, message)
        if not (isinstance(reply, Message) and reply.carries_reports):
            return reply
        extra = [await _measure(report, client, message, reply) for report in reports]
        return reply_type(type(reply), reports)(*reply.payloads(), *extra)

    return answer


def _candidates(handle: Handle, reports: tuple[Report, ...]) -> Handle:
    """Return a handler that reports first, and handles the message once the client is chosen."""
    held: dict[ClientId, Message] = {}

    async def answer(client: Any, message: Message) -> Message | Silence:
        if isinstance(message, Chosen):
            asked = held.pop(client.id, None)
            # A client that has left and returned since then has lost its memory, and the message.
            return SILENCE if asked is None else await handle(client, asked)
        kind = type(message)
        if kind is not candidate_type(kind.__mro__[1]):
            return await handle(client, message)
        extra = [await _measure(report, client, message, None) for report in reports]
        # Back in the method's own class, as its handler expects.
        held[client.id] = kind.__mro__[1](*message.payloads())
        return report_type(reports)(*extra)

    return answer


async def _measure(
    report: Report, client: Client[Any], asked: Message, reply: Message | None
) -> Payload:
    """Return the payload of a quantity. Evaluating a loss is charged as work of the client."""
    if report == "charge":
        value = 1.0 if client.battery is None else client.battery
    elif report == "harvest":
        value = client.harvest  # type: ignore[attr-defined]  # of a simulated one
    elif report == "norm":
        vector = None if reply is None else first_vector(reply)
        value = 0.0 if vector is None else float(np.linalg.norm(vector))
    else:
        w = first_vector(asked)
        if w is None:
            text = f"a {asked.label} has no model at which a client could report its loss"
            raise TypeError(f"participation: {text}; use a policy without reports of losses")
        oracle = client.oracle
        work = oracle.value(w) if report == "loss" else oracle.root_mean_square(w)
        value = float(await client.compute(work))
    return client.pack(np.array(value))
