"""The bench: its files, scores by hand, what `verify` catches, and its plain loops."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logsumexp, softmax
from sklearn import datasets
from typer.testing import CliRunner

import fedsim
from fedsim.addons.bench import run_entry, score, verify
from fedsim.addons.bench.page import correlations, markdown
from fedsim.addons.bench.rules import HOME, WORLD, Entry, Rules, groups, named, names
from fedsim.addons.bench.running import (
    CLOCKS,
    best_trial,
    costs,
    price,
    read_summary,
    scenario_of,
    sealed,
    text_of,
    train,
)
from fedsim.addons.bench.scoring import REACH, cost_table, orders, scores, season, sentences
from fedsim.addons.bench.site import write_page
from fedsim.addons.bench.worlds import DRAWN, constants_on, in_worlds
from fedsim.addons.robustness.uncertain_inputs import constants_of
from fedsim.cli import app
from fedsim.core.ports import Array
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.runs import gather
from fedsim.scenario import load
from tests.conftest import ROOT

SMALL = replace(
    Rules.first(),
    tasks=["digits-mlp"],
    fleets=["phones-lte", "wearables-ble"],
    studies=2,
    trials=2,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the summary of an entry on a reduced bench."""
    return run_entry(Entry.of("fedavg"), tmp_path_factory.mktemp("bench"), SMALL)


def problems(made: Path, change: Callable[[list[dict[str, Any]]], None]) -> list[str]:
    """Return what `verify` finds in a summary whose rows were changed, and sealed again."""
    summary = read_summary(made)
    change(summary["rows"]["digits-mlp"])
    return verify(sealed(summary), Entry.of("fedavg"), SMALL, sample=99)


def counted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["fleet"]]


def test_the_season_names_files_that_are_there() -> None:
    rules = Rules.first()
    assert sorted(task for own in groups().values() for task in own) == names("tasks")
    assert set(rules.fleets) == set(names("fleets"))
    for fleet in rules.fleets:
        assert sum(group["count"] for group in named("fleets", fleet)["fleet"]) == 12
        assert "# source" in (HOME / "fleets" / f"{fleet}.yaml").read_text("utf-8")
    for entry in names("entries"):
        assert Entry.of(entry).name == entry
    ran = {each["entry"]["name"] for group in groups() for each in season(group)}
    assert ran == set(names("entries"))
    seeds = [seed for study in range(rules.studies) for seed in rules.seeds(study)]
    assert len(set(seeds)) == len(seeds)


@pytest.mark.slow
def test_an_untouched_summary_is_in_order(made: Path) -> None:
    assert problems(made, lambda rows: None) == []


def test_a_changed_bit_breaks_the_seal(made: Path) -> None:
    summary = read_summary(made)
    row = counted(summary["rows"]["digits-mlp"])[0]
    row["seconds"] = float(np.nextafter(row["seconds"], inf))
    found = verify(summary, Entry.of("fedavg"), SMALL)
    assert found == ["the seal is broken: the summary was changed after it was written"]


@pytest.mark.slow
def test_a_changed_cost_under_a_new_seal_is_found_by_a_new_run(made: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        row = counted(rows)[0]
        row["seconds"] = float(np.nextafter(row["seconds"], 0))

    (found,) = problems(made, change)
    assert "phones-lte: seconds is" in found


@pytest.mark.slow
def test_bits_that_the_entry_counts_itself_are_not_believed(made: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        for row in counted(rows):
            row["bits_up"] /= 2

    found = problems(made, change)
    assert len(found) == 4
    assert all("bits_up is" in text for text in found)


def test_a_swapped_seed_is_found(made: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        for row in counted(rows):
            row["seed"] += 100

    first = SMALL.seeds(0)[1]
    assert problems(made, change)[0] == (
        f"digits-mlp, study 0: got the seed {first + 100}; the rules say {first}"
    )


def test_a_cherry_picked_trial_is_found(made: Path) -> None:
    best = best_trial([row for row in read_summary(made)["rows"]["digits-mlp"] if not row["study"]])

    def change(rows: list[dict[str, Any]]) -> None:
        for row in counted(rows):
            if not row["study"]:
                row["trial"] = (row["trial"] + 1) % 2

    assert f"the rule selects {best}" in problems(made, change)[0]


@pytest.mark.slow
def test_a_forged_trial_is_found_by_a_new_run(made: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        (trial,) = [row for row in rows if not row["fleet"] and row["study"] == row["trial"] == 1]
        trial["joules"] = 1.0

    (found,) = problems(made, change)
    assert found.startswith("digits-mlp, study 1, trial 1: joules is 1.0; run again, it is")


def test_a_missing_trial_is_found(made: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        del rows[1]

    assert "some trials are missing" in problems(made, change)[0]


def test_another_entry_is_not_taken_for_this_one(made: Path) -> None:
    assert "is not the entry" in verify(read_summary(made), Entry.of("hb"), SMALL)[0]


def test_a_finished_task_is_read_not_run_again(made: Path) -> None:
    before = made.read_bytes(), (made.parent / "fedavg" / "digits-mlp.json").stat().st_mtime_ns
    run_entry(Entry.of("fedavg"), made.parent, SMALL)
    after = made.read_bytes(), (made.parent / "fedavg" / "digits-mlp.json").stat().st_mtime_ns
    assert before == after


@pytest.mark.parametrize("fleet", ["sensors-lora", "phones-mixed"])
def test_a_repriced_fleet_equals_a_fresh_run(fleet: str, tmp_path: Path) -> None:
    entry, seed = Entry.of("fedavg"), SMALL.seeds(0)[1]
    source = scenario_of(entry, "digits-mlp", 0, SMALL, seed, [1])
    folder = train(entry, source, tmp_path / "trained").runs[0]
    priced = price(folder, "digits-mlp", fleet, tmp_path / "priced", entry)
    fresh = train(entry, {**source, **named("fleets", fleet)}, tmp_path / "fresh").runs[0]
    assert priced == costs(fresh, "digits-mlp")
    assert priced["seconds"] != costs(folder, "digits-mlp")["seconds"]


def summary_by_hand(name: str, given: dict[str, list[float]]) -> dict[str, Any]:
    """Return a summary with costs of two studies on two fleets, the same on every clock."""
    rows = [
        {"study": study, "fleet": fleet, "reached": cost < inf, **dict.fromkeys(CLOCKS, cost)}
        for fleet, own in given.items()
        for study, cost in enumerate(own)
    ]
    rules = SMALL.hashes()
    return sealed({"entry": {"name": name}, "rules": rules, "rows": {"digits-mlp": rows}})


def test_scores_of_two_entries_by_hand() -> None:
    # Medians: a 10 and 30, b 20 and infinite (one of two studies missed). Ratios: a 1 and 1, b 2
    # and none. So a has (3 + 3)/3/2 = 1, and b (4 - 2)/3/2 = 1/3.
    a = summary_by_hand("a", {"phones-lte": [8, 12], "wearables-ble": [30, 30]})
    b = summary_by_hand("b", {"phones-lte": [20, 20], "wearables-ble": [40, inf]})
    ranked = score([b, a], SMALL)
    for clock in CLOCKS:
        own = ranked[ranked["clock"] == clock].set_index("entry")
        assert own.index.tolist() == ["a", "b"]
        assert own["score"].tolist() == [1.0, 1 / 3]
        assert own["first"].tolist() == [1.0, 0.0]
        assert own["rank"].tolist() == [1, 2]
        assert own["missed"].tolist() == [0.0, 0.5]


def test_ties_stay_ties() -> None:
    same = {"phones-lte": [8.0, 12.0], "wearables-ble": [3.0, 3.0]}
    ranked = score([summary_by_hand(name, same) for name in "ab"], SMALL)
    assert set(ranked["rank"]) == {1}
    assert ranked["first"].min() > 0


def test_the_score_is_the_integral_of_the_profile() -> None:
    table = np.random.default_rng(1).lognormal(size=(3, 4, 5))
    table[0, 0, 0] = inf
    ratio = table / table.min(axis=0)
    taus = np.linspace(1, REACH, 30_001)
    profile = (ratio[..., None] <= taus).mean(axis=(1, 2))
    integral = np.trapezoid(profile, taus, axis=1) / (REACH - 1)
    np.testing.assert_allclose(scores(table), integral, atol=1e-4)


def test_a_summary_of_other_rules_is_not_ranked() -> None:
    with pytest.raises(fedsim.DataError, match="other season"):
        score([summary_by_hand("a", {})], replace(SMALL, trials=9))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "expected a mapping"),
        ("{division: half}", "expected closed or open"),
        ("{division: open, scenario: {problem: {}}}", "an entry sets"),
        ("{division: open, search: {algorithm.step_size: [1]}}", "the open division"),
        ("{division: open, price: 1}", "got ['price']"),
        ("{division: open, group: convex}", "expected one of smooth, penalised, sparse"),
    ],
)
def test_an_invalid_entry_is_one_clear_error(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "entry.yaml"
    file.write_text(text, encoding="utf-8")
    ended = CliRunner().invoke(app, ["bench", "run", str(file), "--out", str(tmp_path / "out")])
    assert ended.exit_code == 2
    assert said in " ".join(ended.stderr.split())


@pytest.mark.slow
def test_a_users_own_method_comes_from_its_file_to_a_rank(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from typing import Literal\n"
        "from fedsim.algorithms.averaging import FedAvg\n"
        "class Mine(FedAvg):\n"
        '    """Federated averaging under another name."""\n'
        '    kind: Literal["mine"] = "mine"\n',
        encoding="utf-8",
    )
    entry = tmp_path / "mine.yaml"
    entry.write_text(
        "{name: mine, division: open, plugin: mine.py, scenario: {algorithm:"
        " {kind: mine, step_size: 3, local_steps: 10, batch: 16}}}",
        encoding="utf-8",
    )
    some = ["--tasks", "digits-mlp", "--fleets", "phones-lte", "--fleets", "meters-nb-iot"]
    run = CliRunner().invoke(app, ["bench", "run", str(entry), "--out", str(tmp_path), *some])
    assert run.exit_code == 0, run.output
    summary = str(tmp_path / "mine.json")
    ranked = CliRunner().invoke(app, ["bench", "score", summary, *some])
    assert ranked.exit_code == 0, ranked.output
    assert "mine" in ranked.stdout
    checked = CliRunner().invoke(app, ["bench", "verify", summary, str(entry), *some])
    assert checked.stdout.startswith("nothing is wrong"), checked.output


def test_list_begins_each_line_with_a_name() -> None:
    listed = CliRunner().invoke(app, ["bench", "list"]).stdout
    for kind in ("tasks", "fleets", "entries"):
        for name in names(kind):
            assert f"\n {name} " in listed


EVERY = [summary for group in groups() for summary in season(group)]


def test_summaries_of_the_season_are_sealed_and_keep_to_the_rules() -> None:
    assert {each["entry"]["name"] for each in EVERY} == set(names("entries"))
    for summary in EVERY:
        entry = Entry.of(summary["entry"]["name"])
        assert verify(summary, entry, sample=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("summary", EVERY, ids=lambda each: each["entry"]["name"])
def test_a_run_of_the_season_can_be_repeated(summary: dict[str, Any]) -> None:
    assert verify(summary, Entry.of(summary["entry"]["name"]), sample=2) == []


LOADS = {
    "breast-cancer": datasets.load_breast_cancer,
    "wine-softmax": datasets.load_wine,
    "digits-softmax": datasets.load_digits,
}


def plain_loop(task: str, steps: int) -> float:
    """Return the objective after steps of gradient descent on all rows, from zero."""
    rows, labels = LOADS[task](return_X_y=True)
    spread = rows.std(axis=0)
    X = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)
    count, l2 = len(X), 0.01
    largest = np.linalg.norm(X, 2) ** 2 / count
    if task == "breast-cancer":
        signs = 2 * labels - 1
        w = np.zeros(X.shape[1])
        for _ in range(steps):
            slope = -X.T @ (signs / (1 + np.exp(signs * (X @ w)))) / count
            w = w - (slope + l2 * w) / (largest / 4 + l2)
        return float(np.logaddexp(0, -signs * (X @ w)).mean() + l2 / 2 * w @ w)
    hot = np.eye(labels.max() + 1)[labels]
    W = np.zeros((X.shape[1], hot.shape[1]))
    for _ in range(steps):
        W = W - (X.T @ (softmax(X @ W, axis=1) - hot) / count + l2 * W) / (largest / 2 + l2)
    loss = (logsumexp(X @ W, axis=1) - (X @ W * hot).sum(axis=1)).mean()
    return float(loss + l2 / 2 * (W * W).sum())


@pytest.mark.parametrize("task", LOADS)
def test_targets_are_what_a_plain_loop_reaches(task: str) -> None:
    own = named("tasks", task)
    target, steps = own["target"]["objective"], own["reference"]["steps"]
    reached, before = plain_loop(task, steps), plain_loop(task, steps - 5)
    assert reached <= target < before


@pytest.mark.parametrize("task", LOADS)
def test_the_objective_is_that_of_the_plain_loop(task: str, tmp_path: Path) -> None:
    first = plain_loop(task, 0)
    own = named("tasks", task)["scenario"]
    gd = {"algorithm": {"kind": "gd", "step_size": 1e-9}, "stop": {"rounds": 1}}
    rounds = fedsim.run({"name": "gd", **own, **WORLD, **gd}, out=tmp_path).rounds
    assert rounds["objective"].iloc[0] == pytest.approx(first, rel=1e-6)


def standardised(X: Array) -> Array:
    centred: Array = (X - X.mean(axis=0)) / X.std(axis=0)
    return centred


def proximal_loop(steps: int) -> float:
    """Return the objective after proximal gradient steps on all rows, from zero."""
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    X, signs, weight = standardised(rows), 2 * labels - 1, 0.01
    step = 4 * len(X) / np.linalg.norm(X, 2) ** 2
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w + step * X.T @ (signs / (1 + np.exp(signs * (X @ w)))) / len(X)
        w = np.sign(w) * np.maximum(np.abs(w) - step * weight, 0)
    return float(np.logaddexp(0, -signs * (X @ w)).mean() + weight * np.abs(w).sum())


def switching_loop(steps: int) -> float:
    """Return the least loss of the benign rows, where that of the malignant ones is at most 0.1.

    A step follows the gradient of the latter while it is above the bound, else of the former.
    """
    rows, labels = datasets.load_breast_cancer(return_X_y=True)
    X = standardised(rows)
    free, bounded = X[labels == 1], -X[labels == 0]
    steepest = max(np.linalg.norm(own, 2) ** 2 / len(own) / 4 for own in (free, bounded))
    w, least = np.zeros(X.shape[1]), inf
    for _ in range(steps):
        own = bounded if np.logaddexp(0, bounded @ w).mean() > 0.1 else free
        w = w - own.T @ expit(own @ w) / len(own) / steepest
        if np.logaddexp(0, bounded @ w).mean() <= 0.1:
            least = min(least, float(np.logaddexp(0, free @ w).mean()))
    return least


def thresholding_loop(steps: int) -> float:
    """Return the relative distance to the planted model: the median of 25 draws."""
    return float(np.median([thresholding(steps, np.random.default_rng(s)) for s in range(25)]))


def thresholding(steps: int, rng: np.random.Generator) -> float:
    """Draw rows by the recipe of sparse-regression, and take steps on all of them, from zero."""
    values, truth = rng.normal(size=10), np.zeros(200)
    truth[rng.choice(200, 10, replace=False)] = values / np.linalg.norm(values)
    spreads = np.arange(1, 13)[:, None, None] ** -0.1
    own = rng.normal(0, 0.1, (12, 1, 1)) + spreads * rng.normal(size=(12, 50, 200))
    X = own.reshape(-1, 200)
    y = X @ truth + rng.normal(0, 0.01, len(X))
    step, w = len(X) / np.linalg.norm(X, 2) ** 2, np.zeros(200)
    for _ in range(steps):
        w = w - step * X.T @ (X @ w - y) / len(X)
        w[np.argsort(np.abs(w))[:-10]] = 0
    return float(np.linalg.norm(w - truth) / np.linalg.norm(truth))


FURTHER: dict[str, Callable[[int], float]] = {
    "sparse-logistic": proximal_loop,
    "neyman-pearson": switching_loop,
    "sparse-regression": thresholding_loop,
}


@pytest.mark.parametrize("task", FURTHER)
def test_targets_of_the_smaller_groups_are_what_a_plain_loop_reaches(task: str) -> None:
    own = named("tasks", task)
    (target,), steps = own["target"].values(), own["reference"]["steps"]
    assert FURTHER[task](steps) <= target < FURTHER[task](steps - 5)


def test_a_constrained_target_counts_only_models_that_keep_the_bound(tmp_path: Path) -> None:
    entry, rules = Entry.of("fedsgm"), Rules.first("constrained")
    source = scenario_of(entry, "neyman-pearson", 0, rules, 1, [0])
    method = {"kind": "fedsgm", "step_size": 1, "local_steps": 5, "tolerance": 0.1}
    further = {"algorithm": method, "observe": {"every": 1}, "stop": {"rounds": 40}}
    result = train(entry, {**source, **further}, tmp_path)
    rounds = result.rounds
    kept = rounds["constraint"].to_numpy() <= 0.1 * 1.01  # the slack of the method
    # The first model that violates the bound again has a smaller objective than those before it.
    met = int(kept.argmax())
    again = met + int((~kept[met:]).argmax())
    value = float(rounds["objective"].iloc[again])
    first = int((kept & (rounds["objective"].to_numpy() <= value)).argmax())
    assert first > again
    paid = Target.read(f"objective={value!r}").costs(gather(result.runs)).iloc[0]
    assert paid["round"] == rounds["round"].iloc[first]


def test_an_entry_of_another_group_does_not_apply(tmp_path: Path) -> None:
    ended = CliRunner().invoke(
        app, ["bench", "run", "gd", "--tasks", "sparse-logistic", "--out", str(tmp_path)]
    )
    assert ended.exit_code == 2
    said = " ".join(ended.stderr.split())
    assert "gd is of the group smooth, but the task sparse-logistic of penalised" in said


def test_score_takes_the_group_of_its_tasks() -> None:
    ended = CliRunner().invoke(app, ["bench", "score", "--tasks", "neyman-pearson"])
    assert ended.exit_code == 0, ended.output
    assert all(name in ended.stdout for name in ("fedsgm", "fedsgm-soft", "fedsgm-rand-k"))
    assert "scaffnew" not in ended.stdout


@pytest.mark.slow
def test_the_target_of_the_network_is_what_a_plain_loop_reaches() -> None:
    rows, labels = datasets.load_digits(return_X_y=True)
    spread = rows.std(axis=0)
    X = (rows - rows.mean(axis=0)) / np.where(spread > 0, spread, 1)
    rng = np.random.default_rng(1)
    order = rng.permutation(len(X))
    test, train_rows = order[:360], order[360:]
    hot = np.eye(10)[labels]
    A, B = rng.normal(0, 64**-0.5, (64, 64)), rng.normal(0, 64**-0.5, (64, 10))
    for _ in range(2000):
        own = rng.choice(train_rows, 16)
        hidden = np.maximum(X[own] @ A, 0)
        error = (softmax(hidden @ B, axis=1) - hot[own]) / 16
        A, B = A - 0.1 * X[own].T @ (error @ B.T * (hidden > 0)), B - 0.1 * hidden.T @ error
    right = (np.maximum(X[test] @ A, 0) @ B).argmax(axis=1) == labels[test]
    assert right.mean() >= named("tasks", "digits-mlp")["target"]["test_accuracy"]


def test_a_summary_is_read_as_it_was_written(made: Path) -> None:
    summary = read_summary(made)
    assert json.loads(text_of(summary)) == summary
    with pytest.raises(fedsim.DataError, match="expected a summary"):
        read_summary(HOME / "season" / "rules.yaml")


@pytest.mark.slow
def test_the_page_has_the_tables_of_the_season() -> None:
    assert markdown(season()) in (ROOT / "docs" / "bench.md").read_text("utf-8")


def page_of(tmp_path: Path, summaries: list[dict[str, Any]]) -> str:
    """Return the HTML page of a season on two fleets."""
    return write_page(summaries, tmp_path / "page.html", SMALL).read_text("utf-8")


def test_the_page_loads_nothing_and_shows_scores_by_fleet(tmp_path: Path) -> None:
    # On phones-lte a is cheapest, and b costs twice as much; on wearables-ble b is cheapest.
    a = summary_by_hand("a", {"phones-lte": [10, 10], "wearables-ble": [30, 30]})
    b = summary_by_hand("b", {"phones-lte": [20, 20], "wearables-ble": [10, 10]})
    page = page_of(tmp_path, [a, b])
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    rows = re.findall(r'<th scope="row">([\w-]+)</th>((?:<td style.*?</td>)+)', page)
    values = {fleet: re.findall(r">([\d.]+)<", cells) for fleet, cells in rows}
    assert values == {"phones-lte": ["1.00", "0.67"], "wearables-ble": ["0.33", "1.00"]}


def test_a_profile_steps_up_at_each_ratio_within_reach(tmp_path: Path) -> None:
    # b costs twice the cheapest in one of two cells, and has missed the other: half at 2.
    a = summary_by_hand("a", {"phones-lte": [10, 10], "wearables-ble": [30, 30]})
    b = summary_by_hand("b", {"phones-lte": [20, 20]})
    lines = re.findall(r'<polyline points="([^"]*)"', page_of(tmp_path, [a, b]))
    assert len(lines) == 2 * len(CLOCKS)
    assert lines[1] == "0.0,260.0 213.3,260.0 213.3,130.0 640.0,130.0"


def test_a_page_shows_an_entry_as_text(tmp_path: Path) -> None:
    page = page_of(tmp_path, [summary_by_hand("<b>", {})])
    assert "&lt;b&gt;" in page
    assert "<b>" not in page


def test_an_interval_has_the_spread_of_draws_of_studies() -> None:
    # Costs 10 and 40, against 10 always: their median is 25, 2.5 times 10, and (4 - 2.5)/3 is 0.5.
    # A draw of two studies scores 1, 0.5 or 0, and both extremes in a quarter of the draws.
    a = summary_by_hand("a", {"phones-lte": [10, 10]})
    b = summary_by_hand("b", {"phones-lte": [10, 40]})
    ranked = score([a, b], replace(SMALL, fleets=["phones-lte"]))
    own = ranked[ranked["clock"] == "seconds"].set_index("entry")
    values = own[["low", "score", "high"]].to_numpy()
    np.testing.assert_allclose(values, [[1.0, 1.0, 1.0], [0.0, 0.5, 1.0]], atol=0.03)
    assert own.loc["b", "first"] == pytest.approx(0.25, abs=0.03)


def test_seconds_that_are_a_power_of_rounds_follow_rounds_alone() -> None:
    # Within a task seconds are rounds squared; joules are bits up; the two are uncorrelated.
    grid = [(1, 1), (1, 8), (8, 1), (8, 8)]
    rows = {
        task: [
            {"fleet": "phones-lte", "reached": True, "rounds": rounds, "bits_up": scale * bits}
            | {"seconds": scale * rounds**2, "joules": scale * bits}
            for rounds, bits in grid
        ]
        for task, scale in (("digits-mlp", 1000.0), ("wine-softmax", 1.0))
    }
    rules = replace(SMALL, tasks=list(rows), fleets=["phones-lte"])
    causes = correlations([{"rows": rows}], rules)
    assert causes["phones-lte", "seconds"] == pytest.approx({"rounds": 1, "bits": 0})
    assert causes["phones-lte", "joules"] == pytest.approx({"rounds": 0, "bits": 1})


def in_lte_worlds(name: str, drawn: list[float], constant: str, end: float) -> dict[str, Any]:
    """Return a summary of one study that costs 10 on LTE, or what it costs in worlds.

    Half of the sampled worlds have the first cost, the others the second one. One constant costs
    `end` at its low end.
    """
    summary = summary_by_hand(name, {"phones-lte": [10.0, 10.0]})
    constants = constants_on("phones-lte")
    ends = [10.0] * 2 * len(constants)
    ends[2 * constants.index(constant)] = end
    for row in summary["rows"]["digits-mlp"]:
        worlds = [*drawn * (DRAWN // 2), *ends]
        row["worlds"] = {"seconds": worlds, "joules": worlds}
        row["seconds"] = row["joules"] = 10.0 if name == "a" else 11.0
    return sealed(summary)


def test_a_constant_that_reverses_an_order_is_named() -> None:
    # a costs 10 and b 11 as written. In half of the worlds a costs 20 and b 10. A long tail costs
    # a 10 still, but a slow uplink 30.
    rules = replace(SMALL, fleets=["phones-lte"])
    a = in_lte_worlds("a", [10.0, 20.0], "lte.up", 30.0)
    b = in_lte_worlds("b", [10.5, 10.0], "lte.tail_time", 10.5)
    found = orders([a, b], rules)
    own = found[found["clock"] == "seconds"].set_index("fleet")
    assert [own.loc["phones-lte", key] for key in ("entry", "behind")] == ["a", "b"]
    assert own.loc["phones-lte", "holds"] == pytest.approx(0.5, abs=0.03)
    assert own.loc["phones-lte", "reversed"] == ["lte.up at its low end"]
    assert "joules on phones-lte, a is ahead of b" in "\n".join(sentences(found))
    ranked = score([a, b], rules).set_index(["clock", "entry"])
    assert ranked.loc[("seconds", "a"), "first"] == pytest.approx(0.5, abs=0.03)
    assert found[found["clock"] == "bits_up"].empty  # a tie has no order


def test_the_page_names_the_constant_that_reverses_an_order(tmp_path: Path) -> None:
    a = in_lte_worlds("a", [10.0, 20.0], "lte.up", 30.0)
    b = in_lte_worlds("b", [10.5, 10.0], "lte.tail_time", 10.5)
    rules = replace(SMALL, fleets=["phones-lte"])
    page = write_page([a, b], tmp_path / "page.html", rules).read_text("utf-8")
    # On the fleet and over all, by seconds and by joules.
    assert page.count("<td>lte.up at its low end</td>") == 4


def test_a_fleet_without_worlds_of_all_entries_stays_as_written() -> None:
    rules = replace(SMALL, fleets=["phones-lte"])
    a = in_lte_worlds("a", [30.0, 30.0], "lte.up", 30.0)
    b = summary_by_hand("b", {"phones-lte": [11.0, 11.0]})
    found = orders([a, b], rules)
    assert found.loc[found["clock"] == "seconds", "holds"].tolist() == [1.0, 1.0]
    assert sentences(found) == []


def test_costs_in_worlds_are_those_of_new_runs(tmp_path: Path) -> None:
    # One end of an interval, set in the fleet's file, against the stored cost at this end.
    entry, seed = Entry.of("fedavg"), SMALL.seeds(0)[1]
    source = scenario_of(entry, "digits-mlp", 0, SMALL, seed, [1])
    folder = train(entry, source, tmp_path / "trained").runs[0]
    price(folder, "digits-mlp", "phones-lte", tmp_path / "priced", entry)
    worlds = in_worlds(tmp_path / "priced", "digits-mlp")["worlds"]
    place = DRAWN + 2 * constants_on("phones-lte").index("lte.up")
    (rate,) = [
        constant.low
        for constant in constants_of([load(source).variants[0].scenario], {})
        if str(constant.key) == "lte.up"
    ]
    fleet = named("fleets", "phones-lte")
    radio = {"kind": "lte", "up": f"{rate} bit/s"}
    changed = {**fleet, "fleet": [{**fleet["fleet"][0], "radio": radio}]}
    fresh = costs(train(entry, {**source, **changed}, tmp_path / "fresh").runs[0], "digits-mlp")
    assert worlds["joules"][place] == pytest.approx(fresh["joules"], rel=1e-4)
    assert worlds["seconds"][place] == pytest.approx(fresh["seconds"], rel=1e-4)
    assert fresh["seconds"] > 1.05 * costs(folder, "digits-mlp")["seconds"]


def test_the_cost_of_tuning_by_hand() -> None:
    # Study 0 tries 4, 2 and a miss: (4 + 2)/2 = 3. Study 1 tries 5 alone: 1. Their median is 2.
    summary = summary_by_hand("a", {"phones-lte": [1.0, 1.0]})
    for study, trial, cost in ((0, 0, 4.0), (0, 1, 2.0), (0, 2, inf), (1, 0, 5.0)):
        row = {"study": study, "trial": trial, "fleet": "", "reached": cost < inf}
        summary["rows"]["digits-mlp"].append({**row, **dict.fromkeys(CLOCKS, cost)})
    assert score([summary], SMALL)["tuning"].tolist() == [2.0] * len(CLOCKS)


@pytest.mark.slow
def test_bench_page_writes_one_file(tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["bench", "page", "--out", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    page = (tmp_path / "bench.html").read_text("utf-8")
    for entry in season():
        assert f"<summary>{entry['entry']['name']}</summary>" in page


def best_two(clock: str, group: str = "smooth") -> dict[str, list[str]]:
    """Return the names of the two highest scores of a group on each fleet."""
    table = cost_table(season(group), clock, Rules.first(group))
    entries = [each["entry"]["name"] for each in season(group)]
    return {
        fleet: [entries[index] for index in np.argsort(-scores(table[:, :, [place]]))[:2]]
        for place, fleet in enumerate(Rules.first().fleets)
    }


def per_round(entry: str, key: str) -> float:
    """Return the median of seconds or bits up per round of the network's training on LoRa."""
    (summary,) = [each for each in season() if each["entry"]["name"] == entry]
    rows = [row for row in summary["rows"]["digits-mlp"] if row["fleet"] == "sensors-lora"]
    return float(np.median([row[key] / row["rounds"] for row in rows]))


@pytest.mark.slow
def test_the_findings_of_the_page_hold() -> None:
    rules, causes = Rules.first(), correlations(season(), Rules.first())
    assert {*map(tuple, best_two("bits_up").values())} == {("fedavg-qsgd", "diana-qsgd")}
    assert {first for first, _ in best_two("seconds").values()} == {"scaffnew"}
    for fleet, (_, second) in best_two("seconds").items():
        quantised = {"phones-busy-cell", "meters-nb-iot", "sensors-lora", "access-lossy-tcp"}
        assert ("qsgd" in second) == (fleet in quantised)
        assert "qsgd" in second or second in {"scaffold", "fedavgm"}
        assert causes[fleet, "seconds"]["rounds"] > causes[fleet, "seconds"]["bits"]
    joules = cost_table(season(), "joules")
    for fleet in ("phones-lte", "phones-5g"):
        own = joules[:, :, rules.fleets.index(fleet)]
        assert (own.max(axis=0) / own.min(axis=0)).max() < 1.5
    assert causes["meters-nb-iot", "joules"]["bits"] > causes["meters-nb-iot", "joules"]["rounds"]
    assert best_two("joules")["meters-nb-iot"][0] == "fedavg-qsgd"
    assert max(causes["access-lossy-tcp", "seconds"].values()) < 0.4
    assert per_round("fedavg-qsgd", "bits_up") / per_round("fedavg", "bits_up") < 0.035
    seconds = [per_round(each, "seconds") for each in ("fedavg-qsgd", "fedavg", "scaffold")]
    assert [round(each) for each in seconds] == [3249, 6348, 12766]


def test_the_findings_of_the_smaller_groups_hold() -> None:
    for clock in CLOCKS:
        first = {fleet: best[0] for fleet, best in best_two(clock, "sparse").items()}
        last = first.pop("wearables-ble")
        assert last == ("distributed-iht" if clock == "joules" else "fedgradmp")
        assert set(first.values()) == {"fedgradmp"}
    for group in ("penalised", "constrained"):
        assert set(score(season(group), Rules.first(group))["rank"]) == {1}
    assert rounds_of("fedgradmp", "sparse") == (2, 2)
    spans = [rounds_of(each, "penalised") for each in ("fed-dual-avg", "fast-fedda", "fedmid")]
    assert spans == [(2, 7), (3, 7), (5, 49)]


def rounds_of(entry: str, group: str) -> tuple[int, int]:
    """Return the least and the largest number of rounds of an entry's counted runs."""
    (summary,) = [each for each in season(group) if each["entry"]["name"] == entry]
    (rows,) = summary["rows"].values()
    counts = [row["rounds"] for row in counted(rows)]
    return min(counts), max(counts)
