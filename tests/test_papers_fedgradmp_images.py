"""FedGradMP on images in a reduced form: of scikit-learn's digits, and of a user's own file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fedsim
from fedsim.record.read import read_all, run_folders
from tests.scripts import script

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.errors.TheoryWarning")]

paper = script("papers/fedgradmp_images")

ROUNDS = 5
SMALL = [
    "seeds=1",
    f"stop.rounds={ROUNDS}",
    "fleet.0.count=5",
    "participation.count=3",
    'problem.data={"kind": "sklearn", "name": "digits", "preprocess": [{"divide": 16}]}',
    'problem.test={"fraction": 0.2}',
    'problem.split={"kind": "iid"}',
    "algorithm.sparsity=10",
    "algorithm.solver.step_size=0.5",
]
OWN = {
    "mnist": [
        f"variants.{name}.algorithm.{setting}"
        for name, setting in (
            ("fediter-ht", "sparsity=10"),
            ("fediter-ht-33", "sparsity=10"),
            ("fediter-ht-33", "step_size=0.5"),
        )
    ],
    "dictionaries": [
        "variants.gaussian.algorithm.dictionary.columns=64",
        "variants.k-svd.algorithm.dictionary.columns=40",
        "variants.k-svd.algorithm.dictionary.iterations=2",
        "variants.k-svd.algorithm.solver.step_size=0.05",
    ],
}


@pytest.fixture(scope="module", params=list(paper.PARTS))
def part(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a part's name, its tables and sentence, and the folder of its runs and figure."""
    folder = tmp_path_factory.mktemp(request.param)
    overrides = SMALL + OWN[request.param]
    return request.param, paper.run(request.param, folder, overrides, folder), folder


def test_every_variant_has_a_row_and_every_part_a_figure(part: Any) -> None:
    name, (tables, sentence), folder = part
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*tables)
    for text in (*paper.PARTS[name].labels.values(), *paper.PARTS[name].claims.values()):
        assert text in capture.get()
    assert sentence
    assert (folder / f"fedgradmp-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_few_pixels_or_atoms_a_digit_tell_digits_apart(part: Any) -> None:
    """By chance a tenth is right; of the dense model's bits less than half are sent."""
    name, _, folder = part
    rounds = read_all(run_folders(folder / name), "rounds")
    ends = rounds[rounds["round"] == ROUNDS].set_index("variant")[paper.ACCURACY]
    assert ends.drop(["fediter-ht", "fedavg"], errors="ignore").min() > 0.5
    if name == "mnist":
        up = rounds.groupby("variant", observed=True)["bits_up"].sum()
        assert up["base"] < up["fedavg"] / 2


def test_the_labels_are_the_variants_of_the_scenarios() -> None:
    for name, written in paper.PARTS.items():
        plan = fedsim.load(paper.SCENARIOS / f"fedgradmp-{name}.yaml")
        assert {variant.name for variant in plan.variants} == set(written.labels)


def test_federated_emnist_runs_on_a_file_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four writers of 30 images of ten characters, each bright at pixels of its own."""
    rng = np.random.default_rng(3)
    client, y = np.repeat(np.arange(4), 30), np.tile(np.arange(10), 12)
    X = rng.uniform(size=(120, 784)) * (np.arange(784) % 10 == y[:, None])
    np.savez(tmp_path / "femnist.npz", X=X, y=y, client=client)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    small = ["stop.rounds=5", "participation.count=3"] + [
        f"variants.k-svd.algorithm.dictionary.{key}" for key in ("columns=30", "iterations=2")
    ]
    small += ["algorithm.sparsity=20", "variants.fediter-ht.algorithm.sparsity=20"]
    result = fedsim.run(
        paper.SCENARIOS / "fedgradmp-femnist.yaml", out=tmp_path / "runs", overrides=small
    )
    assert set(result.rounds["variant"]) == {"base", "fediter-ht", "k-svd"}
    ends = result.rounds[result.rounds["round"] == 5].set_index("variant")
    assert ends["test_accuracy"]["base"] > 0.5
    assert np.isfinite(ends["objective"]).all()


def test_a_frame_comes_back_from_few_sums_of_its_pixels(tmp_path: Path) -> None:
    """There are fewer sums than pixels: with atoms of other frames they are enough, without not."""
    video = script("papers/fedgradmp_video")
    small = [f"algorithm.dictionary.{key}" for key in ("columns=60", "iterations=3")]
    (table,), sentence = video.run("video", tmp_path, ["stop.rounds=2", *small], tmp_path)
    labels, second = (list(table.columns[place].cells) for place in (0, 2))
    found, *others = map(float, second)
    assert sentence == "Nearest at the end: FedGradMP, K-SVD."
    assert labels == list(video.LABELS.values())
    assert found < 0.2
    assert min(others) > 0.8
    assert (tmp_path / "fedgradmp-video.png").read_bytes().startswith(b"\x89PNG")


def test_the_loss_of_the_frame_is_half_its_mean_squared_error(tmp_path: Path) -> None:
    """So that the errors are relative to a black frame, whose own is 1."""
    video = script("papers/fedgradmp_video")
    made = video.make(tmp_path)
    kept = ["stop.rounds=1", "algorithm.dictionary.columns=30", "algorithm.dictionary.iterations=1"]
    result = fedsim.run(video.SCENARIO, out=tmp_path / "runs", overrides=[*made, *kept])
    truth = np.load(tmp_path / "frame.npz")["y"]
    off = np.linalg.norm(result.model("base", 1) - truth) / np.linalg.norm(truth)
    table = video.error_table(result, float(np.mean(truth**2)) / 2)
    assert float(next(iter(table.columns[1].cells))) == pytest.approx(off, rel=0.05)
