"""The audit of a world: what the log tells is all there is, and nothing can be changed in it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from fedsim.core.errors import AuditError
from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.protocol.stopping import Stop
from fedsim.results.record.ledger import Ledger, Meters
from fedsim.results.record.log import Rows
from fedsim.results.record.schema import Event
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel
from tests.tiers import every

from .links import ServerLink
from .worlds import IDEAL, SLOW, Run, answered, asked, deadline, fleet, play, rounds, setup, work

CLIENTS = 3


@cache
def world() -> tuple[Run, Rows, Meters]:
    """A world in which something of everything has happened, its log and its meters."""

    async def handle(client: SimClient, message: Message) -> Message | Silence:
        await client.compute(work(1.0 + 3.0 * client.id))
        return SILENCE if client.rng.random() < 0.2 else answered(40)

    radio = RadioModel(20.0, 40.0, 0.1, energy_up=0.5, energy_down=0.25, base=1.0)
    members = fleet(*[(device_of(1.0, 4.0, 1.0), radio)] * CLIENTS)
    link, stop = ServerLink(30.0, 50.0), Stop(rounds=6)
    parts = setup(
        rounds, handle, members, header_bits=16, server=link, silence=deadline(5.0), stop=stop
    )
    run = play(parts)
    events = {row["event"] for row in run.rows}
    beginnings = {"exchange", "compute"}
    assert events == beginnings | {"send", "receive", "silent", "late", "round", "stop"}
    return run, np.concatenate(run.raw), run.world.meters()


def audit(rows: Rows, meters: Meters) -> None:
    ledger = Ledger(CLIENTS)
    ledger.absorb(rows)
    ledger.audit(meters)


def test_the_log_as_it_is_passes_in_whatever_chunks_it_comes() -> None:
    _, rows, meters = world()
    audit(rows, meters)
    ledger = Ledger(CLIENTS)
    for chunk in np.array_split(rows, 17):
        ledger.absorb(chunk)
    ledger.audit(meters)


def test_no_row_with_bits_or_joules_can_be_lost_or_written_twice() -> None:
    _, rows, meters = world()
    bits = rows["payload_bits"] + rows["header_bits"]
    matter = (rows["joules"] != 0) | ((bits != 0) & (rows["event"] != Event.LATE))
    assert matter.sum() > 40
    for number in np.flatnonzero(matter):
        for tampered in (np.delete(rows, number), np.insert(rows, number, rows[number])):
            with pytest.raises(AuditError):
                audit(tampered, meters)


@every("column", ["payload_bits", "header_bits", "transport_bits", "joules"])
@every("event", [Event.SEND, Event.RECEIVE])
def test_no_figure_of_a_message_can_be_changed(column: str, event: Event) -> None:
    _, rows, meters = world()
    tampered = rows.copy()
    tampered[column][np.flatnonzero(rows["event"] == event)[3]] += 1
    with pytest.raises(AuditError):
        audit(tampered, meters)


def test_joules_cannot_be_moved_to_another_client() -> None:
    _, rows, meters = world()
    tampered = rows.copy()
    number = np.flatnonzero((rows["event"] == Event.COMPUTE) & (rows["node"] == 0))[0]
    tampered["node"][number] = 1
    with pytest.raises(AuditError, match=r"client-0.*client-1"):
        audit(tampered, meters)


def test_time_cannot_run_back_within_a_chunk_or_between_two() -> None:
    _, rows, meters = world()
    with pytest.raises(AuditError, match="time runs back"):
        audit(rows[::-1], meters)
    half = len(rows) // 2
    ledger = Ledger(CLIENTS)
    ledger.absorb(rows[half:])
    ledger.absorb(rows[:half])
    with pytest.raises(AuditError, match="time runs back"):
        ledger.audit(meters)


@every(
    "field",
    [
        "bits_sent",
        "bits_delivered",
        "bits_heard",
        "bits_lost",
        "bits_in_flight",
        "idle_joules",
        "joules",
    ],
)
def test_no_meter_can_be_wrong(field: str) -> None:
    _, rows, meters = world()
    value = getattr(meters, field)
    with pytest.raises(AuditError):
        audit(rows, replace(meters, **{field: value + 1}))


def test_every_difference_is_named_at_once() -> None:
    _, rows, meters = world()
    wrong = replace(
        meters,
        bits_delivered=0,
        bits_heard=0,
        idle_joules=0 * meters.joules,
        joules=meters.joules * 2,
    )
    with pytest.raises(AuditError) as caught:
        audit(rows, wrong)
    for name in ("delivered", "receive rows", "idle joules", "client-0", "client-1", "client-2"):
        assert name in str(caught.value)


def test_what_was_under_way_at_the_end_is_written_down() -> None:
    members = fleet((SLOW, RadioModel(up=4.0)), (device_of(1.0, 5.0, 1.0), IDEAL), (SLOW, IDEAL))

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(10.0 * (client.id == 1)))
        return answered(80 if client.id == 0 else 8)

    stop = Stop(rounds=1)
    run = play(setup(rounds, handle, members, silence=deadline(3.0), stop=stop))
    (flight,) = run.of("send", detail="in flight")
    assert (flight["t"], flight["duration"], flight["node"]) == (3.0, 3.0, "client-0")
    (cut,) = run.of("compute", node="client-1")
    assert (cut["t"], cut["duration"], cut["joules"]) == (3.0, 3.0, 12.0)
    assert run.world.meters().bits_in_flight == 80


@pytest.mark.parametrize("up", [True, False], ids=["up", "down"])
def test_a_transfer_that_the_end_breaks_off_is_paid_by_the_client(up: bool) -> None:
    radio = RadioModel(up=4.0, down=4.0, energy_up=0.5, energy_down=0.5, base=2.0)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(0 if up else 80))
        server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(80)

    run = play(setup(serve, handle, fleet((SLOW, radio)), silence=deadline(3.0)))
    assert run.t == 3.0
    assert run.ledger.joules.sum(axis=0)[1] == 3.0 * 2.0 + 3.0 * 4.0 * 0.5
