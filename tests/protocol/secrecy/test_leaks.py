"""Neither the files of a run nor its models hold a reply's value, whatever the protocol."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.protocol.secrecy.client import SecretClient
from tests.runs import small

pytestmark = pytest.mark.needs("secrecy")

PROTOCOLS: dict[str, dict[str, Any]] = {
    "secagg": {"kind": "secagg"},
    "checked": {"kind": "secagg", "consistency": True},
    "secagg+": {"kind": "secagg+", "neighbours": 4},
    "lightsecagg": {"kind": "lightsecagg"},
    "union": {"kind": "secagg", "supports": "union"},
    "grouped": {"kind": "secagg", "silence": "grouped", "group": 3},
    "masked": {"kind": "secagg+", "neighbours": 4, "silence": "mask"},
}


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[tuple[Array, Array]]]:
    """Return the vectors that clients pack in each exchange, before and after the rounding."""
    kept, pack = defaultdict[int, list[tuple[Array, Array]]](list), SecretClient.pack

    def keeping(client: Any, vector: Array, *args: Any, **options: Any) -> Any:
        packed = pack(client, vector, *args, **options)
        kept[client._run].append((np.array(vector), np.array(packed.values)))
        return packed

    monkeypatch.setattr(SecretClient, "pack", keeping)
    return kept


def numbers(folder: Path) -> set[float]:
    """Return all numbers in the tables of a run, also those in lists."""
    found: set[float] = set()
    for path in folder.rglob("*.parquet"):
        table = pd.read_parquet(path)
        for name in table:
            cells = table[name].dropna()
            if cells.map(np.ndim).any():
                found.update(np.concatenate(cells.tolist()).astype(float).tolist())
            elif pd.api.types.is_numeric_dtype(cells):
                found.update(cells.astype(float).tolist())
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_reply_can_be_had_from_the_files_or_the_models(
    protocol: str, replies: dict[int, list[tuple[Array, Array]]], tmp_path: Path
) -> None:
    """A step of the model is a sum of all replies, and no multiple of a single one."""
    scenario = small(
        algorithm={"kind": "chb", "step_size": "0.2/L", "momentum": 0.0},
        secrecy=PROTOCOLS[protocol] | {"values": "exact", "clip": 1e5, "bits": 24},
        fleet=[{"count": 9, "device": "phone-mid", "radio": "lte"}],
        models={"every": 1},
        stop={"rounds": 6},
    )
    result = fedsim.run(scenario, out=tmp_path, check=False)
    every = [part for sent in replies.values() for pair in sent for part in pair]
    values = {float(value) for vector in every for value in vector.ravel()} - {0.0}
    assert len(values) > 200
    assert not values & numbers(tmp_path)
    models = np.vstack([np.zeros(10), np.array(result.models["model"].tolist())])
    steps = np.diff(models, axis=0)
    for step in steps[np.abs(steps).max(axis=1) > 0]:
        for vector in every:
            cosine = step @ vector / np.linalg.norm(step) / np.linalg.norm(vector)
            assert abs(cosine) < 1 - 1e-9
