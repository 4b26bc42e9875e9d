"""Laws of any physical world, recomputed from its log: bits, absence, time, determinism."""

from collections import defaultdict
from itertools import pairwise
from math import inf

from hypothesis import given

from fedsim.sim.config import WorldConfig
from tests.tiers import examples

from .physical_worlds import HORIZON, absences, worlds
from .worlds import Row, Run, play

BITS = ("payload_bits", "header_bits", "transport_bits")
LOST, FLIGHT = {"lost", "aborted"}, "in flight"

laws = examples(80)


def bits(rows: list[Row]) -> int:
    return sum(int(row[column]) for row in rows for column in BITS)


def check_bits(run: Run) -> None:
    sent, again = run.of("send"), bits(run.of("retransmit"))
    arrived = [row for row in sent if row["detail"] is None]
    lost = [row for row in sent if row["detail"] in LOST]
    flying = [row for row in sent if row["detail"] == FLIGHT]
    assert len(sent) == len(arrived) + len(lost) + len(flying)
    traffic = run.world.traffic
    assert bits(sent) + again == traffic.bits_up + traffic.bits_down
    assert bits(run.of("lost")) == bits(lost)
    up = [row for row in sent if row["node"] != "server"]
    again_up = [row for row in run.of("retransmit") if row["node"] != "server"]
    assert bits(up) + bits(again_up) == traffic.bits_up
    meters = run.world.meters()
    assert (meters.bits_delivered, meters.bits_in_flight) == (bits(arrived), bits(flying))
    assert meters.bits_lost == bits(lost) + again


def check_receivers(run: Run) -> None:
    """What has arrived has one receiver's row; of a broadcast, one for every listener."""
    heard = defaultdict[tuple[object, ...], int](int)
    for row in run.of("receive", detail=None):
        heard[row["t"], row["peer"], row["node"], bits([row])] += 1
    for row in run.of("send", detail=None):
        if row["peer"] is not None:
            heard[row["t"], row["node"], row["peer"], bits([row])] -= 1
    broadcasts = {(row["t"], bits([row])) for row in run.of("send", peer=None, detail=None)}
    for (t, sender, _, size), count in heard.items():
        assert count == 0 or (count > 0 and sender == "server" and (t, size) in broadcasts)


def check_absence(run: Run, made: WorldConfig) -> None:
    """Who is not there neither sends, receives, computes nor keeps its radio on."""
    busy = {"send", "receive", "compute", "promotion", "tail", "retransmit", "silent"}
    for client in range(len(made.fleet)):
        rows = [row for row in run.rows if row["node"] == f"client-{client}"]
        done = [(row["t"] - row["duration"], row["t"]) for row in rows if row["event"] in busy]
        for gone, back in absences(run, made, client):
            assert all(end <= gone + 1e-9 or begin >= back - 1e-9 for begin, end in done)


def check_order(run: Run) -> None:
    assert all(before["t"] <= after["t"] for before, after in pairwise(run.rows))
    assert all(row["duration"] >= 0 and row["joules"] >= 0 for row in run.rows)
    assert run.t <= HORIZON
    assert all(0 <= row["state_of_charge"] <= 1 for row in run.rows if row["state_of_charge"] >= 0)
    numbers = [row["round"] for row in run.of("round")]
    assert numbers == list(range(1, len(numbers) + 1))


def check_cohorts(run: Run, made: WorldConfig) -> None:
    """Nobody is asked twice in a round by the policy, nor more than it says."""
    wanted = made.participation.asked
    sampled = defaultdict[tuple[int, float], list[str]](list)
    for row in run.of("sampled"):
        sampled[row["round"], row["t"]].append(row["node"])
    for names in sampled.values():
        assert len(set(names)) == len(names) <= (wanted or inf)


@laws
@given(worlds())
def test_laws_of_any_physical_world(made: WorldConfig) -> None:
    run = play(made)  # which audits it
    assert run.error is None
    assert run.reason
    check_order(run)
    check_bits(run)
    check_receivers(run)
    check_absence(run, made)
    check_cohorts(run, made)


@laws
@given(worlds())
def test_a_physical_world_is_a_function_of_its_setup(made: WorldConfig) -> None:
    first, again = play(made), play(made)
    assert [chunk.tobytes() for chunk in first.raw] == [chunk.tobytes() for chunk in again.raw]
    assert first.reason == again.reason
