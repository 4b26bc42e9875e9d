"""What the rows of FedGradMP rest on: a video frame in few numbers, and rounds above a level."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.algorithms.dictionaries import Frame
from fedsim.core.errors import DataError
from tests.conftest import ROOT
from tests.scripts import script
from tests.stand_ins import STAND_INS

sys.path.insert(0, str(ROOT / "analysis/papers"))  # as for the script that is run there
script("papers/run")
functions, model, video = (
    sys.modules[f"reproduction.{name}"] for name in ("functions", "model", "video")
)
sys.path.remove(str(ROOT / "analysis/papers"))


def small(rng: np.random.Generator) -> Any:
    """Return 82 frames of 12 x 16 bytes."""
    return rng.integers(0, 256, (82, 12, 16), dtype=np.uint8)


def test_sums_of_pixels_are_sums_of_coordinates() -> None:
    """A Q from the draws of A, whose entries have the means and variances of their clients."""
    rng = np.random.default_rng(0)
    basis, _, frame = video.span(small(rng))
    A, y = video.sums(np.eye(len(frame)), frame, clients=6, rows=40)
    X, same = video.sums(basis, frame, clients=6, rows=40)
    assert y == pytest.approx(A @ frame, rel=1e-10)
    assert same == pytest.approx(y, rel=1e-10)
    assert pytest.approx(A @ basis, rel=1e-9, abs=1e-9) == X
    spreads = A.reshape(6, -1).std(axis=1)
    assert spreads == pytest.approx(np.arange(1, 7) ** -0.45, rel=0.05)


def test_atoms_in_coordinates_project_as_those_of_pixels() -> None:
    rng = np.random.default_rng(1)
    basis, before, _ = video.span(small(rng))
    atoms = before.T @ rng.standard_normal((80, 9))
    atoms /= np.linalg.norm(atoms, axis=0)
    few, whole = Frame(atoms), Frame(basis @ atoms)
    x, r = rng.standard_normal(9), rng.standard_normal(192)
    assert whole.truncate(x, 4) == pytest.approx(few.truncate(x, 4), abs=1e-10)
    assert whole.correlations(r) == pytest.approx(few.correlations(basis.T @ r), abs=1e-10)
    assert whole.norm == pytest.approx(few.norm)


def test_the_test_loss_is_the_squared_relative_error_of_the_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = small(np.random.default_rng(2))
    monkeypatch.setitem(video.VIDEOS, "ours", lambda: frames)
    made = video.prepare("ours", tmp_path / "made")
    short = ["stop.rounds=2", "algorithm.dictionary.iterations=2"]
    file = model.SCENARIOS / "fedgradmp-video.yaml"
    result = fedsim.run(file, out=tmp_path / "runs", overrides=[*made, *short])
    basis, _, frame = video.span(frames)
    error = np.linalg.norm(basis @ result.model("base", 1) - frame) / np.linalg.norm(frame)
    assert result.rounds["test_loss"].iloc[-1] == pytest.approx(error**2, rel=1e-5)


def test_a_users_video_is_read_and_one_that_is_too_short_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"looked for .*xylophone\.gray"):
        video.read()
    STAND_INS["video"](tmp_path)
    assert video.read().shape == (82, 240, 320)
    file = tmp_path / video.FILE
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match="has 81 frames of 240 x 320 bytes"):
        video.read()
    monkeypatch.delenv("FEDSIM_DATA")
    with pytest.raises(DataError, match="FEDSIM_DATA is not set"):
        video.read()


def test_the_first_round_above_a_level_is_found_and_what_is_not_finite_is_above() -> None:
    rounds = pd.DataFrame(
        {
            "variant": ["a"] * 3 + ["b"] * 3 + ["c"] * 3,
            "seed": 1,
            "round": [1, 2, 3] * 3,
            "error": [1.0, 20.0, 5.0, 1.0, np.nan, np.nan, 1.0, 2.0, 10.0],
        }
    )
    result: Any = type("Result", (), {"rounds": rounds})
    found = functions.first_above(result, None, "error", 10.0)
    assert {name: values.tolist() for name, values in found.items()} == {"a": [2], "b": [2]}
