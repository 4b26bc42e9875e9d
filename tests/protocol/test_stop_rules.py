"""Stop rules as blocks: the law of a plateau, what each rule says of itself, and its keys."""

from collections.abc import Sequence
from math import isnan, nan
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

import fedsim
from fedsim.addons.repricing import reprice
from fedsim.addons.repricing.history import Original
from fedsim.addons.robustness.pricing import hindrance
from fedsim.extend import RoundCheck, RoundEnd, Spec, StopRule
from fedsim.protocol.stop_rules import STOPS, Patience
from fedsim.protocol.stopping import Stop
from fedsim.running.check import check_plan
from tests.runs import small
from tests.tiers import every, examples

GD = {"algorithm": {"kind": "gd", "step_size": "1/L"}, "variants": {}}


def ended(rule: StopRule, values: Sequence[float], higher: bool = False) -> int | None:
    """Return the round that ends a run with these values of an objective, or of a measure."""
    check = rule.watch()
    for number, value in enumerate(values, 1):
        end = RoundEnd(
            round=number,
            objective=nan if higher else value,
            figures={"test_accuracy": None if isnan(value) else value},
            higher={"test_accuracy"},
        )
        if check(end):
            return number
    return None


exact = st.floats(-(2**20), 2**20, width=32)  # of which a power of two is an exact multiple
figures = st.one_of(st.sampled_from([1.0, 2.0, 3.0]), exact, st.just(nan))
traces = st.lists(figures, max_size=30)


@examples(200)
@given(traces, st.integers(1, 8))
def test_without_a_tolerance_it_is_so_many_rounds_since_the_least_value(
    values: list[float], rounds: int
) -> None:
    """The round of the first least value so far is known from the values alone."""
    wanted = None
    for number in range(1, len(values) + 1):
        known = [value for value in values[:number] if not isnan(value)]
        if isnan(values[number - 1]):
            continue
        if number - (values.index(min(known)) + 1) >= rounds:
            wanted = number
            break
    assert ended(Patience(rounds=rounds), values) == wanted


@examples(100)
@given(st.floats(0.5, 0.999), st.floats(1e-6, 0.5), st.integers(1, 40))
def test_of_a_geometric_fall_it_is_a_plateau_where_the_fall_within_its_rounds_is_too_small(
    ratio: float, tolerance: float, rounds: int
) -> None:
    """f q^k falls within n rounds by the share 1 - q^n: many small steps add up."""
    fall = 1 - ratio**rounds
    if abs(fall - tolerance) < 1e-9:
        return  # rounding decides
    values = [100 * ratio**k for k in range(200)]
    found = ended(Patience(rounds=rounds, tolerance=tolerance), values)
    if fall > tolerance:
        assert found is None
    else:
        assert found == 1 + rounds


@examples(100)
@given(traces, st.integers(1, 8), st.sampled_from([0.0, 0.25]), st.sampled_from([0.125, 8.0]))
def test_it_does_not_depend_on_the_unit_nor_on_the_sign_of_what_is_better(
    values: list[float], rounds: int, tolerance: float, unit: float
) -> None:
    rule = Patience(rounds=rounds, tolerance=tolerance)
    accuracy = rule.model_copy(update={"measure": "test_accuracy"})
    found = ended(rule, values)
    assert ended(rule, [unit * value for value in values]) == found
    assert ended(accuracy, [-value for value in values], higher=True) == found
    longer = ended(rule.model_copy(update={"rounds": rounds + 1}), values)
    assert longer is None or (found is not None and longer >= found)


@examples(100)
@given(traces, st.integers(1, 8), st.sampled_from([0.5, 2.0]))
def test_an_improvement_has_its_least_size_in_the_figure_s_own_unit(
    values: list[float], rounds: int, least: float
) -> None:
    rule, wanted, best, since = Patience(rounds=rounds, least=least), None, nan, 0
    for number, value in enumerate(values, 1):
        if isnan(value):
            continue
        if isnan(best) or best - value > least:
            best, since = value, number
        elif number - since >= rounds:
            wanted = number
            break
    assert ended(rule, values) == wanted


def test_what_others_call_patience_leads_to_it() -> None:
    with pytest.raises(
        fedsim.ScenarioError, match="unknown key 'plateau'; did you mean 'patience'"
    ):
        fedsim.load(small(**GD, stop={"plateau": {"rounds": 3}}))


@pytest.mark.parametrize("every", [1, 4])
def test_a_run_ends_in_the_round_that_its_table_shows(every: int) -> None:
    common = {**GD, "observe": {"every": every}}
    rule = Patience(rounds=3, tolerance=0.05)
    whole = fedsim.run(small(**common, stop={"rounds": 60}))
    objectives = whole.rounds["objective"].tolist()
    stopped = fedsim.run(small(**common, stop={"rounds": 60, "patience": rule}))
    (number,) = stopped.summary["rounds"]
    assert number < 60
    assert number + 1 == ended(rule, objectives)  # the first of which is of the start
    assert stopped.rounds.equals(whole.rounds.iloc[: number + 1])
    (reason,) = stopped.summary["reason"]
    best = min(value for value in objectives[: number + 1] if not isnan(value))
    assert reason.startswith("patience: objective ")
    assert float(reason.split()[2]) == pytest.approx(best, rel=rule.tolerance)


def test_every_seed_is_judged_by_itself() -> None:
    """One block serves all runs of a study, each of which sees none of the others."""
    stop = {"rounds": 60, "patience": {"rounds": 2, "tolerance": 0.02}}
    method = {"kind": "fedavg", "step_size": "0.2/L"}
    policy = {"kind": "uniform", "count": 2}
    common = {"algorithm": method, "stop": stop, "participation": policy}
    both = fedsim.run(small(**common, seeds=4)).summary
    for seed in (3, 4):
        (alone,) = fedsim.run(small(**common, seed=seed)).summary["rounds"]
        assert both.loc[both["seed"] == seed, "rounds"].tolist() == [alone]
    assert both["rounds"].nunique() > 1


EVERY: dict[str, Any] = {
    "rounds": 3,
    "gap": 1e-9,
    "objective": 1e-9,
    "time": "1 h",
    "bits": "1 GB",
    "energy": "1 MJ",
    "epsilon": 1000,
    "batteries": 1,
    "patience": {"rounds": 100},
}
POWERED = [{"count": 3, "device": "phone-mid", "radio": "lte", "battery": {}}]


@every("key", [each for each in STOPS.own if each != "epsilon"])
def test_each_rule_says_itself_whether_it_may_end_a_run_early(key: str) -> None:
    """The estimate of a study's time is an upper bound if it does."""
    check_early(key)


@pytest.mark.needs("privacy")
def test_a_budget_of_epsilon_may_end_a_run_early() -> None:
    check_early("epsilon", privacy={"clip": 1.0, "noise": 1.0})


def check_early(key: str, **more: Any) -> None:
    written = small(**GD, fleet=POWERED, stop={"rounds": 3, key: EVERY[key]}, **more)
    plan = fedsim.load(written)
    said = check_plan(plan).title
    assert said.endswith("or less if a stop rule ends runs early") == (key != "rounds")
    (rule,) = (each for each in plan.variants[0].scenario.stop.rules if each.kind == key)
    assert rule.early == (key != "rounds")
    assert rule.mid_round == (key in {"time", "batteries"})


def test_rules_are_asked_for_targets_first_and_for_limits_last() -> None:
    stop = Stop.model_validate({**EVERY, "test_accuracy": 0.9, "rank": 3})
    assert [rule.key for rule in stop.rules] == [
        *("gap", "objective", "test_accuracy", "rank", "patience"),
        *("rounds", "bits", "energy", "epsilon", "time", "batteries"),
    ]
    assert stop.targets == {"gap": 1e-9, "objective": 1e-9, "test_accuracy": 0.9, "rank": 3}


class Budget(StopRule):
    """Ends a run once its traffic has cost so much, or at a time."""

    physical: ClassVar[bool] = False
    kind: Literal["budget"] = "budget"
    most: float = Field(gt=0, description="what may be spent")
    each: float = Field(default=1.0, description="what a bit costs")

    def watch(self) -> RoundCheck:
        def check(end: RoundEnd) -> str:
            spent = self.each * end.bits
            return f"{spent:g} of {self.most:g}" if spent >= self.most else ""

        return check


class Half(StopRule):
    """A rule with one parameter, which reads a column."""

    kind: Literal["half"] = "half"
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def watch(self) -> RoundCheck:
        return lambda end: f"{end.figure(self.column):g}" if end.figure(self.column) < 0.5 else ""


MINE: list[type[Spec]] = [Budget, Half]


def test_a_user_s_rule_ends_a_run_and_is_part_of_what_the_run_is(tmp_path: Path) -> None:
    stop = {"rounds": 50, "budget": {"most": 9000}}
    result = fedsim.run(small(**GD, stop=stop), blocks=MINE, out=tmp_path, version="1")
    sent = (result.rounds["bits_up"] + result.rounds["bits_down"]).cumsum()
    (number,) = result.summary["rounds"]
    assert number == int((sent < 9000).sum()) < 50  # the start among them
    assert result.summary["reason"].tolist() == [f"budget: {sent.iloc[-1]:g} of 9000"]
    (run,) = result.runs
    (again,) = fedsim.load(run / "scenario.yaml", blocks=MINE).variants
    assert again.scenario.stop.own == {"budget": Budget(most=9000)}
    before = (run / "events.parquet").stat().st_mtime_ns
    fedsim.run(small(**GD, stop=stop), blocks=MINE, out=tmp_path, version="1")
    assert (run / "events.parquet").stat().st_mtime_ns == before  # it is there already
    priced = reprice(tmp_path, ["fleet.0.device=pi-4"], tmp_path / "again", blocks=MINE)
    assert priced.summary["reason"].tolist() == result.summary["reason"].tolist()


@pytest.mark.parametrize("written", [Budget(most=9000), {"most": 9000}, None])
def test_it_can_be_made_in_python_and_left_out_by_a_variant(written: object) -> None:
    scenario = small(**GD, stop={"rounds": 2, "budget": {"most": 5}}) | {
        "variants": {"other": {"stop": {"budget": written}}}
    }
    own = fedsim.load(scenario, blocks=MINE).variants[1].scenario.stop.own
    assert own == ({} if written is None else {"budget": Budget(most=9000)})


@every(
    ("stop", "words"),
    [
        ({"budget": {}}, "stop.budget.most: missing, and has no default (what may be spent)"),
        ({"budget": {"most": 0}}, "stop.budget.most: got 0; give a value above 0"),
        (
            {"budget": {"most": 1, "eech": 2}},
            "stop.budget.eech: unknown key 'eech'; did you mean 'each'?",
        ),
        ({"budget": 5}, "stop.budget: got 5; give a block of keys"),
        ({"budgt": {"most": 5}}, "stop.budgt: unknown key 'budgt'; did you mean 'budget'?"),
        (
            {"budget": {"kind": "half", "column": "gap"}},
            "got a rule of the kind half; give it at the key half",
        ),
        ({"half": 3}, "stop.half: got 3; give text"),
        ({"half": "rank"}, "stop.half: no measure gives rank; give measures: [rank]"),
        ({"half": "rnk"}, 'stop.half: reads a column that no run evaluates: got "rnk"'),
        ({"patience": 5}, "stop.patience: got 5; give a block of keys"),
        ({"patience": {"rounds": 0}}, "stop.patience.rounds: got 0; give a value of 1 or more"),
        (
            {"patience": {"rounds": 3, "measure": "test_loss"}},
            "stop.patience: no measure gives test_loss; give measures: [test_loss]",
        ),
    ],
)
def test_what_is_wrong_with_a_rule_is_said_at_its_key(stop: dict[str, Any], words: str) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.load(small(**GD, stop=stop), blocks=MINE)
    assert words in str(caught.value)


class Rank(Half):
    """A rule by the name of a column."""

    kind: Literal["rank"] = "rank"  # type: ignore[assignment]  # another kind


def test_a_rule_and_a_measure_s_column_cannot_have_one_name() -> None:
    with pytest.raises(fedsim.ScenarioError, match=r"a stop rule and a measure's column have this"):
        fedsim.load(small(**GD, stop={"rank": "gap"}), blocks=[Rank])


def test_a_gap_that_is_not_known_is_refused_for_every_rule_that_reads_it() -> None:
    written = small(**GD, stop={"rounds": 3, "patience": {"rounds": 2, "measure": "gap"}})
    written["problem"] = {**written["problem"], "optimum": "unknown"}
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.run(written)
    assert "stop.patience: " in str(caught.value)


def test_a_log_that_a_plateau_has_ended_has_nothing_for_later_rounds(tmp_path: Path) -> None:
    stop = {"rounds": 60, "patience": {"rounds": 3, "tolerance": 0.05}}
    trained = fedsim.run(small(**GD, stop=stop), out=tmp_path / "run")
    sooner = reprice(tmp_path / "run", ["stop.patience.rounds=2"], tmp_path / "sooner")
    wanted = ended(Patience(rounds=2, tolerance=0.05), trained.rounds["objective"].tolist())
    assert wanted is not None
    assert sooner.summary["rounds"].tolist() == [wanted - 1]  # values begin with the start
    with pytest.raises(fedsim.ScenarioError, match=r"stop\.patience.*the log ends after round"):
        reprice(tmp_path / "run", ["stop.patience.rounds=5"], tmp_path / "later")


@pytest.mark.parametrize("physical", [True, False])
def test_a_rule_that_may_depend_on_costs_ends_each_world_elsewhere(
    physical: bool, tmp_path: Path
) -> None:
    stop = {"rounds": 2, "half": "gap"} if physical else {"rounds": 2, "budget": {"most": 1e9}}
    (run,) = fedsim.run(small(**GD, stop=stop), blocks=MINE, out=tmp_path).runs
    told = hindrance(Original.of(run, tuple(MINE)))
    assert told == (
        "stop.half: it ends by time or energy, so in another round in each world"
        if physical
        else ""
    )
