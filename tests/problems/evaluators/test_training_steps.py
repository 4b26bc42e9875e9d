"""Steps of optimizers as one piece of work: those of steps taken one by one, also broken off."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numba import njit

from fedsim.algorithms import FedAvg
from fedsim.algorithms.local_training import KeptOptimizer, LocalUpdates
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array, Client
from fedsim.problems import LossOracle, Squared
from fedsim.problems.evaluators.compiled.evaluator import CompiledEvaluator, QueueTicket
from fedsim.problems.evaluators.compiled.optimizers import advance
from fedsim.problems.evaluators.compiled.rows import MomentBuffers, StepRule
from fedsim.problems.evaluators.compiled.settings import LENGTH, Settings, settings_of
from fedsim.problems.kernels import minibatch_gradient
from fedsim.problems.optimizers import SGD, Adam, Training
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.methods import scenario
from tests.problems.evaluators.test_compiled import RULES
from tests.problems.evaluators.test_local_steps import FICKLE, STEADY, left
from tests.problems.examples import local, samples
from tests.works import evaluated


async def one_by_one(method: Any, client: Client[Any], start: Array) -> Array:
    """Take every step of Adam for itself; each pass is drawn when it begins."""
    n, b, w = client.oracle.rows, method.batch, start
    kept: Any = client.state
    m, v, t = (0.0, 0.0, 0) if kept is None or kept.state is None else kept.state
    for _ in range(method.local_epochs or 0):
        order = client.rng.permutation(n)
        for at in range(0, n, b):
            rows = order[at : at + b]
            whole = client.oracle.minibatch(w, None, client.rng)
            work = whole._replace(kernel=minibatch_gradient, arguments=(w, rows))
            steps = -(-n // b)
            cost = whole.operations / steps + 11 * w.size
            g = await client.compute(work._replace(operations=cost, samples=n / steps))
            t += 1
            m, v = 0.9 * m + (1 - 0.9) * g, 0.999 * v + (1 - 0.999) * (g * g)
            root = np.sqrt(v) / (1 - 0.999**t) ** 0.5 + 1e-8
            w = w - method.eta / (1 - 0.9**t) * m / root
    if kept is not None:
        kept.state = m, v, t
    return w


class OneByOne(FedAvg):
    descend = one_by_one


@pytest.mark.slow
@pytest.mark.parametrize("state", ["reset", "kept"])
@pytest.mark.parametrize("group", [STEADY, FICKLE], ids=["steady", "fickle"])
def test_a_run_is_that_of_steps_one_by_one_also_where_they_are_broken_off(
    group: dict[str, Any], state: str, tmp_path: Path
) -> None:
    written = {**scenario("fedavg"), "fleet": [group], "stop": {"rounds": 20, "time": "60 s"}}
    written["algorithm"] = {
        "kind": "fedavg",
        "step_size": 0.05,
        "batch": 36,
        "local_epochs": 2,
        "optimizer": "adam",
        "optimizer_state": state,
    }
    plan = load(written, overrides=["problem.optimum=unknown"])

    def ran(name: str, kind: type[LocalUpdates] | None) -> tuple[str, Array]:
        job = Builder(plan).build(plan.variants[0], 1)
        assert isinstance(job.algorithm, LocalUpdates)
        algorithm = kind(**job.algorithm.model_dump()) if kind else job.algorithm
        (tmp_path / name).mkdir()
        return left(job, algorithm, tmp_path / name)

    (_, models), (_, expected) = ran("whole", None), ran("single", OneByOne)
    assert len(models) > 3
    np.testing.assert_allclose(models, expected, rtol=1e-9, atol=1e-12)
    read = [pq.read_table(tmp_path / name / "events.parquet") for name in ("whole", "single")]
    for column in ("event", "node", "round"):
        assert read[0][column].equals(read[1][column])
    np.testing.assert_allclose(read[0]["t"], read[1]["t"], rtol=1e-9)
    if group is FICKLE:
        events = read[0].to_pandas()
        assert ((events.event == "compute") & (events.operations == 0)).sum() > 4


def test_compiled_kernels_leave_other_steps_to_numpy() -> None:
    """Rules of users, steps on parts, and minibatches of some rows beside those of all."""
    losses = [local(Squared(), samples(rows=30, features=4))]
    oracle, w = LossOracle(losses[0]), np.ones(4)
    rng = np.random.default_rng(2)
    drawn = oracle.passes(2, 7, rng)
    assert [0 if rows is None else len(rows) for rows in drawn] == [7, 7, 7, 7, 2] * 2
    taken = [
        oracle.sgd_steps(w, 0.1, drawn),
        oracle.sgd_steps(w, 0.1, drawn, change=True),
        oracle.sgd_steps(w, 0.1, oracle.passes(2, 7, rng, drop_last=True)),
        oracle.optimizer_steps(w, drawn, Training(Adam(), (0.1,) * 10)),
        oracle.optimizer_steps(w, drawn, Training(Adam(), (0.1,) * 10, None, 1, anchor=0 * w)),
    ]
    left = [
        oracle.optimizer_steps(w, drawn[:4], Training(Halved(), (0.1,) * 4)),
        oracle.optimizer_steps(w, drawn[:4], Training(Adam(), (0.1,) * 4, moved=((0, 2),))),
        oracle.sgd_steps(w, 0.1, [None, drawn[0]]),
        oracle.sgd_steps(w, 0.1, [drawn[0], None, drawn[1]]),
    ]
    compiled = CompiledEvaluator(losses, 1)
    for work in (*taken, *left):
        ticket = compiled.submit(work)
        assert isinstance(ticket, QueueTicket) == (work in taken)
        np.testing.assert_allclose(compiled.result(ticket), evaluated(work, *losses), rtol=1e-10)


class Halved(SGD):
    """A user's own rule, though it is a subclass of a known one."""

    def step(self, w: Any, g: Any, eta: float, state: Any) -> None:
        w -= eta / 2 * g


@pytest.mark.parametrize("name", RULES)
def test_a_compiled_step_is_that_of_the_rule_to_the_last_bit(name: str) -> None:
    rule: Any = RULES[name]
    rng, steps = np.random.default_rng(1), 400
    rates = tuple(rng.uniform(0.0, 0.1, steps))
    settings = Settings(*settings_of(Training(rule, rates))[:LENGTH])
    plan = StepRule(1.0, 0.0, 0.0, 0.0, 0.0, steps, settings, np.array(rates), 0)
    w, start = rng.standard_normal(103), np.zeros(103)
    v, state = w.copy(), rule.begin(w)
    buffers = MomentBuffers(np.empty(103), np.zeros(103), np.full(103, settings.initial))
    for s in range(steps):
        g = rng.standard_normal(103) * 10.0 ** rng.integers(-6, 4, 103) * (rng.random(103) < 0.9)
        rule.step(w, g, rates[s], state)
        _advance(v, start, g, buffers, plan, s)
    np.testing.assert_array_equal(v, w)


@njit  # type: ignore[untyped-decorator]
def _advance(
    v: Array, start: Array, g: Array, moments: MomentBuffers, rule: StepRule, s: int
) -> None:
    advance(v, start, g, moments, rule, s)


def test_a_kept_state_beyond_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    written = scenario("fedavg") | {"fleet": [{"count": 9}]}
    written["algorithm"] = written["algorithm"] | {"optimizer": "adam", "optimizer_state": "kept"}
    monkeypatch.setenv("FEDSIM_MEMORY", "2 MB")
    assert Builder(load(written)).check()
    monkeypatch.setattr(Adam, "moments", 5000)
    with pytest.raises(ScenarioError, match=r"algorithm.optimizer_state: the optimizer's state of"):
        Builder(load(written)).check()


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("numbers", "bytes_each"), [("float32", 4), ("float64", 8)])
def test_a_kept_state_counts_as_it_is_kept(
    numbers: str, bytes_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = scenario("fedavg")
    loss = {"kind": "torch", "model": {"kind": "mlp", "hidden": [400]}, "numbers": numbers}
    written["problem"] = written["problem"] | {"loss": loss}
    kept = {"optimizer": "adam", "optimizer_state": "kept"}
    written["algorithm"] = written["algorithm"] | kept
    written["fleet"] = [{"count": 40}]
    d = Builder(load(written)).check()[0].problem.dimension
    size = 40 * (2 * d + 1) * bytes_each
    monkeypatch.setenv("FEDSIM_MEMORY", f"{(size + 500) / 1000:.3f} kB")
    assert Builder(load(written)).check()
    monkeypatch.setenv("FEDSIM_MEMORY", f"{(size - 500) / 1000:.3f} kB")
    with pytest.raises(ScenarioError, match=rf"{2 * d + 1} values each, would take"):
        Builder(load(written)).check()


def test_a_client_that_keeps_nothing_has_no_memory() -> None:
    w = np.zeros(3)
    assert FedAvg(step_size=1, optimizer="adam").memory(w) is None
    kept = FedAvg(step_size=1, optimizer="adam", optimizer_state="kept")
    assert isinstance(kept.memory(w), KeptOptimizer)
    assert kept.kept_values(3) == 7
