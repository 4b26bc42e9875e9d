"""The experiments of Fast-FedDA in a reduced form: their scenarios, tables, costs and figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedsim
from tests.scripts import script

pytestmark = pytest.mark.slow

paper = script("papers/fast_fedda")

REDUCED = [
    "seeds=1",
    "stop.rounds=6",
    "fleet.0.count=4",
    "fleet.1.count=2",
    "participation.count=3",
    "problem.data.clients=6",
    "problem.data.rows=20",
    "variants.mc-fedda.algorithm.stages.0.rounds=2",
    "variants.mc-fedda.algorithm.stages.1.rounds=2",
]
SIZES = {
    "sparse": ["problem.data.features=36", "problem.data.ones=10"],
    "low-rank": ["problem.data.shape=[6, 6]", "problem.data.rank=2"],
}
DIMENSION = 36


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fedsim.Result]:
    """Return the reduced runs of every part."""
    return {
        name: fedsim.run(
            paper.scenario(name), out=tmp_path_factory.mktemp(name), overrides=REDUCED + sizes
        )
        for name, sizes in SIZES.items()
    }


@pytest.fixture(params=list(SIZES))
def part(request: pytest.FixtureRequest, results: dict[str, fedsim.Result]) -> Any:
    """Return a part and its reduced runs."""
    return request.param, results[request.param]


def shown(*parts: Any) -> str:
    """Return what a console shows."""
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


def test_the_settings_are_those_of_the_paper() -> None:
    for name in SIZES:
        plan = fedsim.load(paper.scenario(name))
        for variant in plan.variants:
            method = variant.scenario.algorithm.model_dump()
            assert (method["local_steps"], method["batch"]) == (10, 10)
            assert method.get("mu", 0.1) == 0.1
            assert method.get("step_size", 0.001) == 0.001
            gamma = 550 if method["kind"] == "fast-fedda" else 600
            assert method.get("gamma", gamma) == gamma
            assert variant.scenario.clients == 64
        assert {variant.name for variant in plan.variants} <= set(paper.LABELS)


def test_every_method_has_its_row(part: Any) -> None:
    name, result = part
    text = shown(paper.PARTS[name].table(result.rounds))
    for label in paper.labels(result.rounds).values():
        assert label in text


def test_one_vector_up_in_the_place_of_two_changes_nothing_but_bits(
    results: dict[str, fedsim.Result],
) -> None:
    runs = dict(list(results["sparse"].rounds.groupby("variant", observed=True)))
    two, one = runs["base"], runs["combined"]
    assert one["distance"].to_numpy() == pytest.approx(two["distance"].to_numpy(), rel=1e-4)
    assert one["bits_down"].tolist() == two["bits_down"].tolist()
    assert (one["bits_up"].to_numpy() < two["bits_up"].to_numpy()).all()


def test_the_stages_of_mc_fedda_say_their_centre(part: Any) -> None:
    """Three clients a round: a vector each, after two rounds a second one and a number."""
    _, result = part
    events = result.events
    down = events[(events["event"] == "send") & (events["node"] == "server")]
    own = down[down["variant"] == "mc-fedda"]
    first, then = own[own["round"] <= 2], own[own["round"] > 2]
    vector = 16 + 32 + 32 * DIMENSION
    assert first["payload_bits"].tolist() == [vector] * 6
    assert then["message"].unique().tolist() == ["stageddual"]
    assert then["payload_bits"].between(vector + 40 + 32, 2 * vector + 40).all()


def test_the_penalised_models_end_nearer_to_the_truth_than_they_start(part: Any) -> None:
    _, result = part
    for _, run in result.rounds.groupby("variant", observed=True):
        assert run["distance"].iloc[-1] < run["distance"].iloc[0]


def test_a_part_draws_its_figure_and_says_what_it_found(
    part: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, result = part
    easy = paper.PARTS[name]._replace(target=float(result.rounds["distance"].max()))
    monkeypatch.setitem(paper.PARTS, name, easy)
    monkeypatch.setattr(fedsim, "run", lambda *_, **__: result)
    tables, sentence = paper.run(name, tmp_path, figures=tmp_path)
    assert (tmp_path / f"fast-fedda-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert shown(*tables)
    assert all(paper.LABELS[method] in sentence for method in paper.ERRORS)
    assert ("one vector up" in sentence) == (name == "sparse")


def table(rounds: list[float], bits: list[float], seeds: Sequence[float] = (1.0,)) -> pd.DataFrame:
    """Return costs of three methods, under seeds that differ in scale."""
    names = ["fedmid", "base", "c-fedda"]
    parts = [
        pd.DataFrame(
            {
                "variant": names,
                "seed": seed,
                "reached": True,
                **dict.fromkeys(("round", "t", "joules"), scale * np.array(rounds)),
                "bits_up": scale * np.array(bits),
                "bits_down": 0.0,
                "bits": scale * np.array(bits),
            }
        )
        for seed, scale in enumerate(seeds)
    ]
    return pd.concat(parts, ignore_index=True)


def test_the_finding_says_where_the_order_changes() -> None:
    same = paper.finding(table([3, 1, 2], [30, 10, 20]))
    order = "Fast-FedDA < C-FedDA < FedMiD."
    assert same.endswith(f"the order by rounds, bits, seconds and joules is {order}")
    other = paper.finding(table([3, 1, 2], [10, 30, 20]))
    assert "the order by rounds, seconds and joules is Fast-FedDA < C-FedDA < FedMiD;" in other
    assert other.endswith("by bits it is FedMiD < C-FedDA < Fast-FedDA.")


def test_the_order_is_that_of_every_seed_and_not_of_means() -> None:
    """Of five seeds, C-FedDA is a tenth cheaper in each of four, and ten times costlier in one."""
    runs = table([3, 1, 2], [3, 1, 2], seeds=[1.0, 10.0, 100.0, 1000.0, 10000.0])
    assert "the order by rounds, bits, seconds and joules is Fast-FedDA <" in paper.finding(runs)
    mixed = runs["variant"] == "c-fedda"
    base = runs.loc[runs["variant"] == "base", "bits"].to_numpy()
    runs.loc[mixed, "bits"] = base * [0.9, 0.9, 0.9, 0.9, 10.0]
    assert "by bits it is Fast-FedDA ~ C-FedDA ~ FedMiD" in paper.finding(runs)
    runs.loc[mixed, "bits"] = base
    assert "by bits it is Fast-FedDA = C-FedDA < FedMiD" in paper.finding(runs)


def test_costs_are_those_of_the_first_round_at_the_target() -> None:
    """Under all seeds, or the method is not in the table."""
    rounds = pd.DataFrame(
        [
            (variant, seed, number, distance)
            for variant, path in {"base": (2.0, 0.9, 1.1), "fedmid": (2.0, 1.5, 1.2)}.items()
            for seed in (1, 2)
            for number, distance in enumerate(path, start=1)
        ],
        columns=["variant", "seed", "round", "distance"],
    ).assign(t=1.5, transmissions=1, beacons=0, bits_up=10, bits_down=5, joules=2.0)
    costs = paper.costs(rounds)
    assert costs.index.tolist() == ["base"]
    assert np.array_equal(costs.loc["base"], [2.0, 30.0, 1.5, 4.0])


@pytest.mark.parametrize(("part", "target"), [("emnist-10", "80%"), ("emnist-62", "50%")])
def test_federated_emnist_runs_on_a_file_of_the_users_own(
    part: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four writers of 33 images of eleven characters, of which ten are digits, drawn at random."""
    rng = np.random.default_rng(3)
    client, y = np.repeat(np.arange(4), 33), np.tile(np.arange(11), 12)
    X = rng.uniform(size=(132, 784)) * (np.arange(784) % 11 == y[:, None])
    np.savez(tmp_path / "femnist.npz", X=X, y=y, client=client)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    rounds = 50
    overrides = [f"stop.rounds={rounds}", "participation.count=2", "problem.penalty.weight=0.005"]
    (table, spent), said = paper.run(part, tmp_path, overrides, tmp_path)
    runs = fedsim.run(paper.scenario(part), out=tmp_path / part, overrides=overrides)
    classes = 10 if part == "emnist-10" else 11
    assert runs.rounds.groupby("variant").size().eq(rounds).all()
    for _, run in runs.rounds.groupby("variant", observed=True):
        assert run["objective"].iloc[-1] < np.log(classes)
        assert run["test_accuracy"].iloc[-1] > 0.5
    words = shown(table, spent)
    assert all(
        paper.LABELS[name] in words for name in ("base", "c-fedda", "fedmid", "fed-dual-avg")
    )
    assert f"To an accuracy of {target} the order by" in said
    assert (tmp_path / f"fast-fedda-{part}.png").exists()


def test_both_settings_of_federated_emnist_are_the_same_but_for_the_classes() -> None:
    ten, all_ = (fedsim.load(paper.scenario(part)).variants for part in ("emnist-10", "emnist-62"))
    for few, many in zip(ten, all_, strict=True):
        own, other = few.scenario.model_dump(), many.scenario.model_dump()
        assert own["problem"]["data"].pop("classes") == list(range(10))
        assert other["problem"]["data"].pop("classes") is None
        assert own["problem"] == other["problem"]
        assert own["algorithm"] == other["algorithm"]


def test_the_mean_of_the_models_has_a_row_beside_the_last_one(tmp_path: Path) -> None:
    """Of 36 clients; what is sent is the same."""
    reduced = [
        *("stop.rounds=6", "problem.data.rows=20", "participation.count=3"),
        *("problem.data.features=36", "problem.data.ones=10"),
    ]
    (plan, *_) = fedsim.load(paper.scenario("average")).variants
    assert plan.scenario.clients == 36
    (table, _), _ = paper.run("average", tmp_path, reduced, tmp_path)
    rounds = fedsim.run(paper.scenario("average"), out=tmp_path / "average", overrides=reduced)
    runs = dict(list(rounds.rounds.groupby("variant", observed=True)))
    assert all(paper.LABELS[name] in shown(table) for name in runs)
    assert runs["average"]["bits_up"].tolist() == runs["base"]["bits_up"].tolist()
    assert runs["average"]["distance"].iloc[-1] != runs["base"]["distance"].iloc[-1]
