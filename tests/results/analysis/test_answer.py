"""The answer in one sentence: what it says follows from the costs alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from fedsim.core.ports import Array
from fedsim.core.tables import as_text
from fedsim.results.analysis import Target, answer
from fedsim.results.analysis.compare.answer import MOST, reference_answer
from fedsim.results.analysis.compare.cost_tables import misses, summarise, whole_costs
from fedsim.results.analysis.compare.dominance import Decisions
from fedsim.results.analysis.compare.runs import EndedRuns
from fedsim.results.analysis.costs import notes_on_seeds, with_bits
from fedsim.results.display import Shown
from tests.tiers import every

GAP = Target("gap", 1e-3)


def costs(
    joules: Mapping[str, Sequence[float]], seconds: float = 1.0, unit: float = 1.0
) -> pd.DataFrame:
    """Return one row per run; a NaN is a run that did not get there."""
    rows = [
        {"variant": name, "seed": seed, "reached": not np.isnan(each), "round": 5, "t": seconds}
        | {
            "bits_up": 8.0,
            "bits_down": 2.0,
            "joules": each * unit,
            "transmissions": 3,
            "beacons": 0,
        }
        for name, figures in joules.items()
        for seed, each in enumerate(figures)
    ]
    return pd.DataFrame(rows)


def said(joules: Mapping[str, Sequence[float]], target: Target = GAP) -> str:
    return answer(costs(joules), target, {name: name for name in joules})


SAME = "a and b take the same energy to a gap below 0.001"


@every(
    ("joules", "sentence"),
    [
        ({"a": [3.0], "b": [4.0]}, "a reaches a gap below 0.001 with 25 % less energy than b"),
        ({"a": [3.0, 30.0], "b": [6.0, 60.0]}, "50 % less energy than b (the same in all 2 seeds)"),
        (
            {"a": [3.0], "b": [3.0]},
            f"{SAME} (one seed): what differs between them had no effect on it",
        ),
        ({"a": [3.0], "b": [np.nan]}, "only a reaches a gap below 0.001 in 5 rounds, 10 bit"),
        ({"a": [np.nan], "b": [np.nan]}, "no run reached a gap below 0.001"),
        ({"a": [3.0, np.nan], "b": [np.nan, np.nan]}, "only a (reached in 1 of 2 seeds) reaches"),
        ({"a": [3.0]}, "a reaches a gap below 0.001 in 5 rounds"),
    ],
)
def test_it_says_which_is_cheapest_and_how_sure_that_is(
    joules: Mapping[str, Sequence[float]], sentence: str
) -> None:
    assert sentence in said(joules)


NEAR = [10.0, 11.0, 12.0, 10.5, 11.5, 10.2, 11.2, 12.1]
"""Energy of a method in eight seeds."""


@every(
    ("joules", "second"),
    [
        # Two variants of one family that seeds do not tell apart, and a baseline that costs twice.
        ({"base": [2 * n for n in NEAR], "a": NEAR, "b": NEAR[::-1]}, True),
        ({"base": NEAR, "a": NEAR[::-1], "b": [2 * n for n in NEAR]}, False),  # it is in the answer
        ({"base": [3 * n for n in NEAR], "a": NEAR, "b": [2 * n for n in NEAR]}, False),  # certain
        ({"base": NEAR[2:] + NEAR[:2], "a": NEAR, "b": NEAR[::-1]}, False),  # all are open
    ],
)
def test_an_open_answer_is_followed_by_that_on_the_first_variant(
    joules: Mapping[str, Sequence[float]], second: bool
) -> None:
    table, labels = costs(joules), {name: name for name in joules}
    found = reference_answer(table, GAP, labels)
    assert bool(found) is second
    if second:
        assert found == answer(table, GAP, {"base": "base", "a": "a"})
        assert " with 50 % less energy than base (" in found
        assert "statistically indistinguishable" in answer(table, GAP, labels)


def test_where_no_run_got_there_the_nearest_one_is_named() -> None:
    table, labels = costs({"a": [np.nan], "b": [np.nan]}), {"a": "A", "b": "B"}
    rounds = pd.DataFrame(
        {"variant": ["a", "a", "b", "c"], "gap": [0.5, 0.25, 0.125, 0.1], "test_loss": np.nan}
    )
    nearest = "no run reached a gap below 0.001; closest: B, 0.125"
    assert answer(table, GAP, labels, rounds=rounds) == nearest
    best = rounds.rename(columns={"gap": "test_accuracy"})
    accurate = answer(table, Target("test_accuracy", 0.9), labels, rounds=best)
    assert accurate.endswith("; closest: A, 0.5")
    unknown = Target("test_loss", 0.1)
    assert (
        answer(table, unknown, labels, rounds=rounds) == "no run reached test_loss of at most 0.1"
    )


def test_seeds_that_do_not_decide_are_said_not_to() -> None:
    joules = {"a": [1.0, 2.0, 1.0, 2.0, 1.0, 2.0], "b": [2.0, 1.0, 2.0, 1.0, 2.1, 1.0]}
    assert "a and b are statistically indistinguishable in energy" in said(joules)


def test_whole_runs_of_unlike_length_rank_nothing() -> None:
    table, labels = costs({"a": [3.0], "b": [4.0]}), {"a": "a", "b": "b"}
    longer = table.assign(round=[5, 6])
    assert answer(longer, Target(), labels).startswith(
        "the runs have no target, and end after different numbers of rounds, so costs do not rank"
    )
    assert not Target().ranks(longer)
    assert said({"a": [np.nan]}, Target()) == ""


def test_costs_of_equally_many_rounds_are_compared_with_the_first_variant() -> None:
    figures = {"base": [4.0], "a": [3.0], "b": [3.5]}
    assert said(figures, Target()) == (
        "over the whole run, a takes 25 % less energy than base (one seed)"
    )


def test_a_start_model_that_meets_the_target_has_no_ratio() -> None:
    table, labels = costs({"a": [0.0], "b": [2.0]}), {"a": "a", "b": "b"}
    assert answer(table, GAP, labels).endswith("with less energy than b (one seed)")
    nothing = dict.fromkeys(("round", "t", "bits_up", "bits_down", "joules"), 0)
    already = "the start model already meets a gap below 0.001: every cost is 0"
    assert answer(table.assign(**nothing), GAP, labels) == already


def test_a_difference_below_the_practical_one_has_no_winner() -> None:
    sentence = "a and b take the same energy to a gap below 0.001, within 1 % (one seed)"
    assert said({"a": [3.0], "b": [3.000006]}) == sentence


def test_seeds_that_are_too_few_are_said_to_be() -> None:
    few = said({"a": [1.0, 2.0, 1.5], "b": [1.3, 2.1, 9.0]})
    goal = "takes less energy to a gap below 0.001"
    assert few == f"no winner yet: a {goal} than b in all 3 seeds; run more seeds"
    assert said({"a": [1.0, 2.0, 1.5], "b": [1.3, 2.1, 1.4]}) == (
        f"no winner yet: a {goal} in 2 of 3 seeds, b in 1; run more seeds"
    )
    missed = said({"a": [1.0, 2.0, 1.5], "b": [1.3, np.nan, np.nan]})
    assert missed == (
        f"no winner yet: a {goal} than b (reached in 1 of 3 seeds) in all 3 seeds (2 of them"
        " because b missed the target); run more seeds"
    )


def curve(variant: str, seed: int, values: Array) -> pd.DataFrame:
    rounds = range(len(values))
    table = {"variant": variant, "seed": seed, "round": rounds, "test_accuracy": values}
    return pd.DataFrame(table)


RISING, FLAT = np.linspace(0.1, 0.84, 41), np.full(41, 0.82)
FLAT[:10] = np.linspace(0.1, 0.8, 10)
CREEPING = FLAT.copy()
CREEPING[-1] = 0.8203
STALLED = "more seeds will not change that b ended at 0.82 (seed 2) with"
REMEDY = "rounds: lower the target or run longer"


@every(
    ("values", "advice"),
    [
        (RISING, "run more seeds"),  # it was cut off on its way
        (FLAT, f"{STALLED} no progress in the last 30 {REMEDY}"),
        (CREEPING, f"{STALLED} progress of at most 0.0003 in the last 20 {REMEDY}"),
        (FLAT[5:12], "run more seeds"),  # too short to tell
    ],
)
def test_more_seeds_are_not_advised_if_a_run_stopped_short_of_its_target(
    values: Array, advice: str
) -> None:
    joules = {"a": [1.0, 2.0, 1.5], "b": [1.3, 2.3, np.nan]}
    runs = [(name, seed) for name in joules for seed in range(3)]
    others = [curve(*run, np.linspace(0.1, 0.9, 41)) for run in runs if run != ("b", 2)]
    rounds, target = pd.concat([*others, curve("b", 2, values)]), Target("test_accuracy", 0.85)
    labels = {name: f"{name} (method)" for name in joules}
    found = answer(costs(joules), target, labels, rounds=rounds)
    assert found.endswith(f"; {advice}")
    costs_of_three = costs(joules | {"c": [9.0, 8.0, 8.5]})
    three = labels | {"c": "c"}
    found = answer(costs_of_three, target, three, rounds=rounds, against="a")
    assert "b (reached in 2 of 3 seeds) has too few seeds to tell" in found
    assert found.endswith(f";\n  {advice}") is (advice != "run more seeds")


def test_the_cheapest_is_named_also_if_most_runs_missed_the_target() -> None:
    """Medians are then infinite for all, and costs where a target was reached decide the order."""
    far = [np.nan] * 3
    rows = {"fedavg": [6.0, 5.5], "one-step": [10.0, 10.4], "qsgd": [5.2, 5.1]}
    text = said({name: [*figures, *far] for name, figures in rows.items()})
    assert text.startswith("no winner yet: qsgd (reached in 2 of 5 seeds) takes less energy")
    assert "than fedavg (reached in 2 of 5 seeds) in all 2 seeds" in text
    once = {"rare": [1.0, *[np.nan] * 4], "often": [5.0, 6.0, *far]}
    assert said(once).startswith("no winner yet: often")


def worlds(share: float, low: float, high: float) -> pd.DataFrame:
    """Return what `fedsim robust` says of a against b."""
    row = {"variant": "a", "against": "b", "cost": "joules", "typical": share}
    return pd.DataFrame([row | {"ratio_low": low, "ratio_high": high, "worlds": 512}])


@every(
    ("other", "share", "ends", "sentence"),
    [
        (4.0, 0.98, (0.6, 0.9), "25 % less energy than b (one seed; less in 98 % of 512 worlds)"),
        (
            *(4.0, 0.63, (0.6, 1.4)),
            "depends on uncertain constants (a takes less in 63 % of 512 worlds)",
        ),
        (
            *(3.01, 0.63, (0.8, 1.4)),
            "depends on uncertain constants (ratio 0.8 to 1.4 in nine of ten of 512 worlds)",
        ),
        (3.01, 0.98, (0.995, 1.001), "the same energy to a gap below 0.001, within 1 % (one seed"),
    ],
)
def test_worlds_and_seeds_make_one_verdict(
    other: float, share: float, ends: tuple[float, float], sentence: str
) -> None:
    table, labels = costs({"a": [3.0], "b": [other]}), {"a": "a", "b": "b"}
    assert sentence in answer(table, GAP, labels, worlds=worlds(share, *ends))


def test_seeds_that_do_not_decide_are_not_outvoted_by_worlds() -> None:
    noisy = costs({"a": [1.0, 2.0] * 3, "b": [2.0, 1.1] * 3})
    sentence = answer(noisy, GAP, {"a": "a", "b": "b"}, worlds=worlds(1.0, 0.9, 0.95))
    assert "a and b are statistically indistinguishable in energy" in sentence
    assert "100 %" not in sentence


def test_without_energy_it_is_about_time_and_without_time_about_bits() -> None:
    table = costs({"a": [1.0], "b": [1.0]}, unit=0.0)
    slow = table.assign(t=[1.0, 2.0])
    assert "in 50 % less time than b" in answer(slow, GAP, {"a": "a", "b": "b"})
    ideal = table.assign(t=0.0, bits_up=[2.0, 8.0])
    assert "with 60 % fewer bits than b" in answer(ideal, GAP, {"a": "a", "b": "b"})


def test_of_very_many_variants_nothing_is_said() -> None:
    many = {f"v{number}": [1.0 + number] for number in range(MOST + 1)}
    assert said(many) == ""


def test_a_seed_that_one_variant_missed_is_no_part_of_the_comparison_and_is_said() -> None:
    dear = [10.0] * 9 + [400.0]
    missed = said({"a": dear, "b": [10.01] * 9 + [np.nan]})
    assert missed == (
        "a and b (reached in 9 of 10 seeds) cannot be compared in energy to a gap below 0.001: in"
        " the 9 seeds in which both reached it, a takes the same within 1 %; only a reached it in"
        " 1 seed"
    )
    cheaper = said({"a": [8.0] * 9 + [400.0], "b": [10.0] * 9 + [np.nan]})
    assert cheaper.startswith(
        "a reaches a gap below 0.001 with less energy than b (reached in 9 of 10 seeds) (in the 9"
        " seeds in which both reached it, a takes 20 % less; only a reached it in 1 seed;"
    )


def test_it_is_about_the_variant_that_was_asked_for() -> None:
    joules = {"a": [3.0], "b": [4.0], "c": [12.0], "never": [np.nan]}
    labels = {name: f"{name.upper()} (gd)" for name in joules}
    head = "(baseline), energy to a gap below 0.001 (one seed)"
    two = "A (gd) reaches a gap below 0.001 with 25 % less energy than B (gd)"
    for against, words in {
        "a": f"Against A {head}: B takes 33 % more; C takes 300 % more; NEVER never reaches it",
        "b": f"Against B {head}: A takes 25 % less; C takes 200 % more; NEVER never reaches it",
        "c": f"Against C {head}: A takes 75 % less; B takes 67 % less; NEVER never reaches it",
        "never": f"NEVER (gd) never reached a gap below 0.001; {two} (one seed)",
    }.items():
        assert answer(costs(joules), GAP, labels, against=against) == words
    del joules["c"], joules["never"], labels["c"], labels["never"]
    assert answer(costs(joules), GAP, labels, against="b") == f"{two} (one seed)"


def test_against_a_baseline_the_same_verdict_is_said_once() -> None:
    joules = {"base": [4.0], "a": [6.0], "b": [6.0], "c": [3.0], "d": [np.nan], "e": [np.nan]}
    assert answer(costs(joules), GAP, {name: name for name in joules}, against="base") == (
        "Against base (baseline), energy to a gap below 0.001 (one seed): c takes 25 % less; a and"
        " b take 50 % more; d and e never reach it"
    )


@pytest.mark.parametrize("cost", ["joules", "t", "bits", "round"])
def test_each_clause_is_the_verdict_on_a_variant_and_the_baseline(cost: str) -> None:
    """The ratio of the means of one seed, in every cost, recomputed from the table."""
    table = costs({"base": [4.0], "a": [6.0], "b": [3.0]})
    table["t"], table["round"] = [5.0, 4.0, 20.0], [10, 30, 5]
    table["bits_up"], table["bits_down"] = [6.0, 1.0, 30.0], [2.0, 1.0, 2.0]
    own = table.assign(bits=table["bits_up"] + table["bits_down"]).set_index("variant")[cost]
    labels = {str(name): str(name) for name in own.index}
    sentence = answer(table, GAP, labels, against="base", by=cost)
    for name in ("a", "b"):
        ratio = own[name] / own["base"]
        share = f"{100 * abs(ratio - 1):.2g}" if ratio < 2 else f"{100 * (ratio - 1):.0f}"
        assert f"{name} takes {share} % {'less' if ratio < 1 else 'more'}" in sentence


def test_against_a_baseline_evidence_that_differs_stands_in_each_clause() -> None:
    sentence = answer(costs(SIX), GAP, {name: name for name in SIX}, against="base")
    best, third, second = (sentence.index(f"{name} takes") for name in ("best", "third", "second"))
    assert best < second < third  # the cheapest one first
    for name in ("best", "second"):
        pair = Decisions.of(with_bits(costs(SIX)), ["joules"]).pair(name, "base", "joules")
        low, high = (f"{100 * (1 - end):.2g} %" for end in (pair.high, pair.low))
        assert f"(95 % interval {low} to {high}, 6 seeds)" in sentence
    assert sentence.endswith("never never reaches it")
    assert "cheap in two (reached in 2 of 6 seeds)" in sentence


def test_of_many_variants_the_first_ones_have_clauses() -> None:
    joules = {f"v{number}": [1.0 + number] for number in range(20)}
    sentence = answer(costs(joules), GAP, {name: name for name in joules}, against="v0")
    assert sentence.count(" takes ") == 12
    assert sentence.endswith(";\n  the tables have 7 more variants")


def test_what_runs_spent_that_missed_a_target_is_said_once_a_variant() -> None:
    table = costs({"a": [3.0, 3.0], "b": [4.0, np.nan], "c": [np.nan, np.nan]})
    rounds = table.assign(round=7, joules=[1.0, 2.0, 3.0, 5.0, 8.0, 10.0], gap=1.0, objective=1.0)
    summary = rounds.rename(columns={"round": "rounds"}).assign(status="done", reason="rounds")
    runs = EndedRuns((), rounds, summary, {name: name.upper() for name in "abc"})
    some = (
        "B: 1 of 2 seeds reached the target, and the means are over this seed; seed 1 missed it,"
        " and spent 7 rounds, 1 s, 5 J and 10 bit"
    )
    assert list(misses(runs, table, GAP, runs.labels)) == [
        some,
        "C: 0 of 2 seeds reached the target; they spent 7 rounds, 1 s, 9 J and 10 bit on average",
    ]


@every(
    ("joules", "differ"),
    [
        ({"a": [3.0, 3.0], "b": [4.0, 5.0]}, False),
        ({"a": [3.0, 3.0], "b": [4.0, np.nan]}, True),
        ({"a": [3.0, np.nan], "b": [4.0, np.nan]}, False),  # the same seed
        ({"a": [3.0, np.nan], "b": [np.nan, 4.0]}, True),  # as many, and other ones
        ({"a": [3.0, np.nan], "b": [np.nan, np.nan]}, False),  # b has no mean
    ],
)
def test_means_over_different_seeds_have_a_note_in_all_tables(
    joules: Mapping[str, Sequence[float]], differ: bool
) -> None:
    table = costs(joules)
    rounds = table.assign(gap=np.where(table["reached"], 1e-4, 1.0), objective=1.0, cohort=1)
    names = {"round": "rounds"}
    summary = rounds.rename(columns=names).assign(status="done", reason="-", target=1e-3)
    summary = summary.assign(algorithm="gd", counting="rounds")
    shown = Shown("", summary, rounds.assign(round=1), (), "")
    assert ("the means are over different seeds" in as_text(shown.costs())) is differ
    note = "the means are over different seeds, since some runs missed the target: paired"
    assert [text.startswith(note) for text in notes_on_seeds(table)] == [True] * differ


def test_a_run_that_no_stop_rule_ended_has_spent_what_its_summary_says() -> None:
    table = costs({"a": [3.0], "b": [4.0]})
    rounds = table.assign(gap=1.0, objective=1.0)
    summary = rounds.rename(columns={"round": "rounds"}).assign(joules=9.0, reason="-")
    summary["status"] = ["done", "no-clients"]
    runs = EndedRuns((), rounds, summary, {"a": "a", "b": "b"})
    whole = Target()
    assert whole_costs(runs)["joules"].tolist() == [3.0, 9.0]
    shown = whole.shown(summarise(whole.costs(runs)), runs).set_index("variant")
    assert shown["joules"].to_dict() == {"a": 3.0, "b": 9.0}
    assert shown["reached"].to_dict() == {"a": 1, "b": 0}
    assert list(misses(runs, whole.costs(runs), whole, runs.labels)) == [
        "b was not ended by a stop rule: its costs do not rank"
    ]


SIX = {
    "base": [9.0, 9.1, 8.9, 9.0, 9.2, 9.1],
    "third": [4.0, 4.1, 3.9, 4.0, 4.2, 4.1],
    "best": [2.0, 2.1, 1.9, 2.0, 2.2, 2.1],
    "never": [np.nan] * 6,
    "second": [3.0, 3.1, 2.9, 3.0, 3.2, 3.1],
    "cheap in two": [1.0, np.nan, np.nan, np.nan, np.nan, 1.0],
}
"""Costs of six variants under six seeds."""


def test_the_sentence_is_on_the_cheapest_and_the_next_cheapest_of_many() -> None:
    goal = "best reaches a gap below 0.001"
    assert said(SIX).startswith(f"{goal} with 33 % less energy than second (")
    table, labels = costs(SIX), {name: name for name in SIX}
    baseline = answer(table, GAP, labels, against="base")
    head, *clauses = baseline.split("\n  ")  # too long for one line
    assert head == "Against base (baseline), energy to a gap below 0.001:"
    starts = ["best takes 77", "second takes 6", "third takes 5", "cheap in two", "never never"]
    assert len(clauses) == len(starts)
    assert all(each.startswith(start) for each, start in zip(clauses, starts, strict=True))
    assert [each.endswith(";") for each in clauses] == [True] * 4 + [False]
    missed = answer(table, GAP, labels, against="never")
    assert missed.startswith(f"never never reached a gap below 0.001; {goal} with 33 % less")


def test_the_example_of_a_target_is_a_whole_command() -> None:
    table = costs({"a": [3.0], "b": [4.0]}).assign(round=[5, 6])
    sentence = answer(table, Target(), {"a": "a", "b": "b"})
    assert sentence.endswith("such as fedsim compare DIR --target gap=1e-3")
