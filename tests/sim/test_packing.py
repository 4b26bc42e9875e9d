"""Compression where messages are lost, clients come and go, and batteries run out.

What a client keeps of its errors is what was packed and has not been taken back; and all that
is taken back is what the server was never told.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.ports import Payload
from fedsim.wire import ErrorFeedback, ErrorFeedback21
from tests.algorithms.packing import Seen, link, run, scenario
from tests.tiers import in_turn

ROUNDS = {"rounds": 120}
WIFI = {"kind": "wifi", "latency": "10 ms"}
LOSSY = WIFI | {"tries": 1, "loss": {"kind": "independent", "rate": "30 %"}}
SLOW = {"up": "20 kbit/s"}
FLICKERING = {"kind": "markov", "on": "2 s", "off": "1 s"}
FEEBLE = {"capacity": "2 J", "charging": {"kind": "constant", "power": "1 W"}}


def fleet(radio: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"count": 4, "device": "pi-4", "radio": radio} | more]


def rounds_of(seconds: str) -> dict[str, Any]:
    return {"kind": "full", "deadline": seconds}


WORLDS: dict[str, dict[str, Any]] = {
    "losses": {"fleet": fleet(LOSSY), "participation": rounds_of("1 s")},
    "losses, late replies": {"fleet": fleet(LOSSY | SLOW), "participation": rounds_of("30 ms")},
    "goings": {"fleet": fleet(WIFI | SLOW, availability=FLICKERING)},
    "goings, late replies": {
        "fleet": fleet(WIFI | SLOW, availability=FLICKERING),
        "participation": rounds_of("30 ms"),
    },
    "losses and goings": {
        "fleet": fleet(LOSSY, availability=FLICKERING),
        "participation": rounds_of("1 s"),
    },
    "batteries": {"fleet": fleet(WIFI | {"up": "5 kbit/s"}, battery=FEEBLE)},
    "a sample of the first": {
        "fleet": fleet(WIFI | SLOW, availability=FLICKERING),
        "participation": {"kind": "uniform", "count": 2, "over": 1.5},
    },
    "asynchronous": {
        "fleet": fleet(WIFI | SLOW, availability=FLICKERING),
        "participation": {"kind": "asynchronous", "buffer": 2},
    },
    "silence that is waited for": {
        "fleet": fleet(LOSSY),
        "silence": {"kind": "deadline", "after": "1 s"},
    },
}
KINDS = ("top-k", "rand-k", "scaled-sign")
METHODS = ("chb", "gd", "lag-wk", "lag-ps", "dcgd")
LOSSLESS = [name for name in WORLDS if "losses" not in name and "silence" not in name]


def played(world: str, feedback: str, kind: str, folder: Path) -> Seen:
    """Run DCGD whose uplink is compressed; the model goes down as it is."""
    wire = {"values": "float64", "up": link(kind, feedback)}
    return run(scenario(wire=wire, stop=ROUNDS, **WORLDS[world]), folder)


def names(payloads: list[Payload]) -> list[int]:
    """Return what tells payloads apart; an update is another object where it has arrived."""
    return sorted(id(getattr(payload, "sent", payload)) for payload in payloads)


def check_books(seen: Seen) -> None:
    """What is kept has been received or is on its way: each once, and nothing else has been."""
    for client, packer in seen.up.items():
        arrived = seen.method.received(client) + seen.coming[client]
        assert names(arrived) == names([payload for _, payload in packer.kept])


@pytest.mark.slow
@pytest.mark.parametrize(("world", "kind"), in_turn(WORLDS, KINDS))
def test_what_arrives_and_the_error_are_all_that_was_not_taken_back(
    world: str, kind: str, tmp_path: Path
) -> None:
    seen = played(world, "ef", kind, tmp_path)
    check_books(seen)
    for client, packer in seen.up.items():
        assert isinstance(packer.packer, ErrorFeedback)
        arrived = seen.method.received(client) + seen.coming[client]
        sent = sum(payload.values for payload in arrived)
        said = sum(vector for vector, _ in packer.kept)
        size = np.abs(packer.vectors).sum()
        assert np.abs(sent + packer.packer.error - said).max() <= 1e-12 * size


@pytest.mark.slow
@pytest.mark.parametrize(("world", "kind"), in_turn(LOSSLESS, KINDS))
def test_under_ef21_the_server_can_hold_what_it_is_told(
    world: str, kind: str, tmp_path: Path
) -> None:
    seen = played(world, "ef21", kind, tmp_path)
    check_books(seen)
    for client, packer in seen.up.items():
        held = np.zeros(30)
        for payload in seen.method.received(client) + seen.coming[client]:
            held = held + payload.sent.values  # type: ignore[attr-defined]
            assert np.abs(held - payload.values).max() <= 1e-12 * np.abs(packer.vectors).max()
        assert isinstance(packer.packer, ErrorFeedback21)
        assert packer.packer.held == pytest.approx(held, rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_these_worlds_lose_and_are_late(tmp_path: Path) -> None:
    taken, late = dict[str, int](), dict[str, int]()
    for world in WORLDS:
        seen = played(world, "ef", "top-k", tmp_path / world.replace(" ", "-"))
        taken[world] = sum(len(packer.taken) for packer in seen.up.values())
        late[world] = len(seen.of("late"))
    assert all(taken[world] > 5 for world in WORLDS)
    assert all(late[world] > 5 for world in WORLDS if "late" in world or "first" in world)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "method"), in_turn(WORLDS, METHODS, each=2))
def test_every_world_takes_both_ways_compressed(world: str, method: str, tmp_path: Path) -> None:
    wire = {"up": link("top-k"), "down": link("natural")}
    blocks = WORLDS[world] | {"wire": wire, "stop": {"rounds": 25}}
    plain = run(scenario(method, **blocks), tmp_path / "plain")
    wired = run(scenario(method, **blocks), tmp_path / "wired", bytewise=True)
    check_books(plain)
    assert np.isfinite(plain.models).all()
    assert plain.sha256 == wired.sha256


@pytest.mark.parametrize("feedback", ["none", "ef21"])
@pytest.mark.parametrize("kind", ["top-k", "qsgd", "low-rank"])
def test_all_clients_are_told_the_same_model(kind: str, feedback: str, tmp_path: Path) -> None:
    blocks: dict[str, Any] = {"wire": {"down": link(kind, feedback)}, "fleet": fleet(WIFI)}
    seen = run(scenario(**blocks), tmp_path)
    sent = np.array([payload.values for payload in seen.down.payloads])
    assert len(seen.models) == len(sent) == 15
    for client in range(4):
        assert np.array_equal(seen.method.told[client], sent)
    assert np.array_equal(seen.down.vectors, seen.models)
    assert not np.array_equal(sent, seen.models)


@pytest.mark.slow
def test_under_ef21_the_clients_model_comes_near_to_the_server_s(tmp_path: Path) -> None:
    wire = {"up": link("top-k", "ef21"), "down": link("top-k", "ef21")}
    seen = run(scenario(wire=wire, stop={"rounds": 1500}), tmp_path)
    gradient = seen.job.problem.gradient
    first, last = (np.linalg.norm(gradient(w)) for w in (seen.models[0], seen.models[-1]))
    assert last < 1e-4 * first
    assert seen.method.told[0][-1] == pytest.approx(seen.models[-1], rel=1e-3, abs=1e-5)
