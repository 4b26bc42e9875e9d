"""Compressors in whole runs: every one under every algorithm, over the wire as bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim import run as run_scenario
from fedsim.core.ports import SERVER, Meaning, Payload
from fedsim.scenario import Compression
from fedsim.scenario.building.packing import packer
from fedsim.wire import COMPRESSORS, ValueFormat, encode
from tests import methods
from tests.algorithms import packing
from tests.algorithms.packing import METHODS, Seen, link, run, scenario
from tests.runs import files, small
from tests.tiers import every, some

KINDS = [model.model_fields["kind"].default for model in COMPRESSORS]
RANDOM = ["rand-k", "qsgd", "natural", "terngrad", "dithered", "low-rank"]
VECTOR = np.linspace(-1.0, 2.0, 30)


def feedbacks(method: str, kind: str) -> tuple[str, str]:
    """Return the strongest feedback that goes with them, up and down."""
    strongest = "none" if kind == "threshold" or method == "lag-ps" else "ef21"
    return ("ef" if method == "dcgd" else "none"), strongest


def check_bits(seen: Seen) -> None:
    """Every message's payload bits are the length of the bytes that it is encoded to."""

    def bits(payload: Payload) -> int:
        return 8 * len(encode(payload))

    sent = [row for row in seen.of("send") if row["message"] != "beacon"]
    for client, packed in seen.up.items():
        own = [row["payload_bits"] for row in sent if row["node"] == f"client-{client}"]
        assert own == [bits(payload) for payload in packed.payloads]
    for row in sent:
        if row["node"] == "server":
            assert row["payload_bits"] == bits(seen.down.payloads[row["round"] - 1])


def test_the_tables_of_the_tests_have_every_kind() -> None:
    assert list(packing.COMPRESSORS) == KINDS
    assert set(methods.METHODS) >= set(METHODS)


@pytest.mark.parametrize("method", some(METHODS, "gd"))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_charged_is_what_arrives(kind: str, method: str, tmp_path: Path) -> None:
    up, down = feedbacks(method, kind)
    wire = {"values": "float32", "up": link(kind, up), "down": link(kind, down)}
    blocks = scenario(method, wire=wire)
    plain = run(blocks, tmp_path / "plain")
    wired = run(blocks, tmp_path / "wired", bytewise=True)
    check_bits(plain)
    check_bits(wired)
    assert [row["round"] for row in plain.rounds] == [*range(1, 16)]
    assert np.array_equal(plain.models, wired.models)
    assert plain.sha256 == wired.sha256


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "threshold"])
def test_ef21_up_is_what_arrives(kind: str, tmp_path: Path) -> None:
    blocks = scenario(wire={"up": link(kind, "ef21"), "down": link(kind, "ef21")})
    plain = run(blocks, tmp_path / "plain")
    wired = run(blocks, tmp_path / "wired", bytewise=True)
    check_bits(plain)
    assert np.array_equal(plain.models, wired.models)
    assert plain.sha256 == wired.sha256


def test_the_round_table_adds_up_payload_header_and_transport(tmp_path: Path) -> None:
    fleet = [{"count": 3, "device": "pi-4", "radio": "wifi"}, {"device": "pi-4", "radio": "lte"}]
    wire = {"up": link("top-k", "ef"), "down": link("qsgd")}
    seen = run(scenario(wire=wire, fleet=fleet), tmp_path)
    for number, row in enumerate(seen.rounds, start=1):
        sent = [each for each in seen.of("send") if each["round"] == number]
        for way, own in {"down": True, "up": False}.items():
            parts = np.array(
                [
                    (each["payload_bits"], each["header_bits"], each["transport_bits"])
                    for each in sent
                    if (each["node"] == "server") == own
                ]
            )
            assert len(parts) == 4
            assert (parts > 0).all()
            assert row[f"bits_{way}"] == parts.sum()


@every("kind", RANDOM)
def test_a_sender_draws_from_a_stream_of_its_own(kind: str) -> None:
    spec = Compression.model_validate(link(kind))

    def sent(seed: int, sender: int, messages: int = 3) -> list[bytes]:
        one = packer(spec, ValueFormat.FLOAT32, seed, sender)
        return [encode(one.pack(VECTOR)) for _ in range(messages)]

    assert sent(1, 3) == sent(1, 3)
    streams = [sent(seed, sender)[0] for seed in (1, 2) for sender in (SERVER, 0, 3)]
    assert len(set(streams)) == len(streams)
    assert len(set(sent(1, 3))) > 1


@pytest.mark.slow
def test_a_run_with_every_compressor_leaves_the_same_bytes_twice(tmp_path: Path) -> None:
    variants = {kind: {"wire": {"up": link(kind, "ef"), "down": link(kind)}} for kind in KINDS[1:]}
    blocks = scenario(variants=variants, stop={"rounds": 6}, seeds=2)
    for name in ("one", "two"):
        run_scenario(blocks, out=tmp_path / name)
    one, two = files(tmp_path / "one"), files(tmp_path / "two")
    assert len([name for name in one if name.endswith("events.parquet")]) == 2 * len(KINDS)
    assert one == two


def test_the_draws_of_a_compressor_change_no_others(tmp_path: Path) -> None:
    slow = {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 0.5}}
    markov = {"kind": "markov", "on": "20 s", "off": "5 s"}
    blocks: dict[str, Any] = {
        "fleet": [{"count": 6, "device": slow, "radio": "wifi", "availability": markov}],
        "participation": {"kind": "uniform", "count": 3},
    }
    cohorts, slowdowns = [], []
    for kind in ("identity", *RANDOM):
        wire = {"up": link(kind, "ef"), "down": link(kind)}
        seen = run(scenario(wire=wire, **blocks), tmp_path / kind)
        cohorts.append([(row["round"], row["node"]) for row in seen.of("sampled")])
        worked = [(row["node"], row["duration"]) for row in seen.of("compute")]
        slowdowns.append(sorted(worked))
    assert len(cohorts[0]) == 3 * 15
    assert all(cohort == cohorts[0] for cohort in cohorts)
    assert all(worked == slowdowns[0] for worked in slowdowns)


def test_an_unbiased_compressor_is_contractive_where_the_method_keeps_the_errors() -> None:
    spec = Compression.model_validate({"compressor": {"kind": "rand-k", "count": 5}})
    vector = np.random.default_rng(1).standard_normal(20)
    form = ValueFormat.FLOAT64
    plain = packer(spec, form, 1, 0).pack(vector).values
    shrunk = packer(spec, form, 1, 0, meanings={"": Meaning.DIFFERENCE}).pack(vector).values
    assert np.allclose(shrunk, plain / 4, rtol=1e-12, atol=0)  # omega = 20/5 - 1
    kept = np.flatnonzero(plain)
    assert np.allclose(shrunk[kept], vector[kept], rtol=1e-12, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gd", "chb", "lag-wk"])
def test_differences_that_are_compressed_at_random_do_not_grow(kind: str) -> None:
    rand_k = {"kind": "rand-k", "fraction": 0.3}
    algorithm = {"kind": kind, "step_size": "0.2/L"}
    wire = {"values": "float64", "up": {"compressor": rand_k}}
    result = fedsim.run(small(algorithm=algorithm, wire=wire, stop={"rounds": 300}))
    gaps = result.rounds["gap"]
    assert gaps.iloc[-1] < gaps.iloc[0] / 100
