"""End devices and their gateway: what cannot be received is found before any run."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.addons.conformance import check_energy
from fedsim.addons.repricing import reprice
from fedsim.core.errors import ScenarioError
from tests.tiers import every

SMALL: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "contiguous", "remainder": "spread"},
    },
    "algorithm": {"kind": "hb", "step_size": "1/L", "momentum": 0.4},
    "stop": {"rounds": 4},
}


def with_radio(radio: dict[str, Any], network: Any, **more: Any) -> dict[str, Any]:
    group = {"count": 3, "device": "cortex-m7", "radio": {"kind": "lora-sf9", **radio}}
    return {**SMALL, "fleet": [group], "network": network, **more}


@every(
    ("radio", "network", "key", "words"),
    [
        ({"lorawan": {}}, {}, "fleet.0.radio.lorawan", "has no gateway; give network.lora"),
        ({"kind": "lte"}, {"lora": {}}, "network.lora", "no radio of the fleet is a LoRa modem"),
        (
            {"lorawan": {"path_loss": "150 dB"}},
            {"lora": {}},
            "fleet.0.radio.lorawan.path_loss",
            "at SF9 the gateway receives no frame of cortex-m7 over lora-sf9 beyond 143.5 dB",
        ),
        (
            {"tries": 1},
            {"lora": {}},
            "fleet.0.radio.tries",
            "can be lost for good, after 1 try, and nothing would close a round",
        ),
        (
            {"lorawan": {"shadowing": "8 dB"}},
            {"lora": {}},
            "fleet.0.radio.lorawan.shadowing",
            "if its shadow is too deep",
        ),
    ],
)
def test_what_never_arrives_is_refused(
    radio: dict[str, Any], network: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        fedsim.run(with_radio(radio, network), out=None)
    (fault,) = caught.value.faults
    assert fault.key == key
    assert words in fault.message


def test_a_run_on_batteries_keeps_its_energy_and_is_replayed_exactly(tmp_path: Path) -> None:
    radio = {"kind": "lora-sf7", "lorawan": {"poll": "5 min", "adr": True}}
    made = with_radio(radio, {"lora": {"channels": 1}})
    made["fleet"][0]["battery"] = {"capacity": "20 Wh"}
    result = fedsim.run(made, out=tmp_path / "runs")
    found = check_energy(result.runs[0])
    assert found[found["outcome"] != "kept"].empty, found
    assert set(result.events["detail"].dropna()) >= {"poll", "windows"}
    slower = ["fleet.0.radio.spreading=8"]
    again = reprice(result.runs[0], slower, out=tmp_path / "again")
    fresh = fedsim.run(made, overrides=slower, out=tmp_path / "fresh")
    assert again.rounds["t"].tolist() == fresh.rounds["t"].tolist()
    assert again.rounds["joules"].tolist() == fresh.rounds["joules"].tolist()
