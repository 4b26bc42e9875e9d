"""Compiled kernels: what the reference says to rounding, and to the bit whatever lies beside."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.core.ports import Array, Work
from fedsim.core.streams import EntityStreams, StreamGroup, Streams
from fedsim.problems import Logistic, Loss, MultilayerPerceptron, Problem, Samples, Softmax, Squared
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.problems.evaluators.compiled import CompiledProgram
from fedsim.problems.evaluators.compiled.evaluator import CompiledEvaluator
from fedsim.problems.evaluators.kernel_cache import cached_kernel
from fedsim.problems.evaluators.supported import compilable
from fedsim.problems.kernels import (
    gradient,
    minibatch_change,
    minibatch_gradient,
    optimizer_steps,
    sgd_change,
    sgd_steps,
    value,
)
from fedsim.problems.optimizers import (
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Optimizer,
    Training,
    Yogi,
    pack_state,
)
from fedsim.problems.samples import NARROW, LaterDraws, draw_minibatches, shuffled_passes
from tests.problems.examples import LOSSES, named
from tests.tiers import every, examples

SIZES = 1, 4, 7, 18
WIDE = NARROW + 5
"""Features of rows that are stored by rows."""


def losses_of(
    loss: Loss, *, sparse: bool = False, features: int = 6, sizes: tuple[int, ...] = SIZES
) -> Sequence[LocalLoss]:
    """Return the losses of clients with as many rows as `sizes` says."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((sum(sizes), features))
    if sparse:
        X *= rng.random(X.shape) < 0.5
    classes = 3 if isinstance(loss, Softmax) or getattr(loss, "output", "") == "softmax" else 2
    y = 2.0 * rng.permutation(np.arange(len(X)) % classes) - 1.0
    ends = np.cumsum((0, *sizes))
    parts = [Samples(csr_array(X[a:b]) if sparse else X[a:b], y[a:b]) for a, b in pairwise(ends)]
    return Problem.of(loss, parts).losses


ROWS = [losses_of(Logistic(l2=0.1), sparse=sparse) for sparse in (False, True)]


def works_of(losses: Sequence[LocalLoss], count: int, seed: int = 0) -> list[Work]:
    """Return work of all kinds that are compiled, and of one that is not."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        client = int(rng.integers(len(losses)))
        rows, w = losses[client].rows, rng.standard_normal(losses[0].dimension)
        drawn = tuple(rng.choice(rows, -(-rows // 2), replace=False) for _ in range(3))
        last = drawn[2][: rng.integers(1, 10)]
        steps = (None, None) if rng.random() < 0.5 else (*drawn[:2], last)
        pull = 0.3 if rng.random() < 0.5 else None
        made.append(
            [
                Work(gradient, client, (w,), 1.0),
                Work(minibatch_gradient, client, (w, drawn[0]), 1.0),
                Work(sgd_steps, client, (w, 0.05, steps, pull), 1.0),
                Work(minibatch_change, client, (w, 0.5 * w, [drawn[0], None][pull is None]), 1.0),
                Work(value, client, (w,), 1.0),
                Work(sgd_change, client, (w, 0.05, steps, pull), 1.0),
                Work(optimizer_steps, client, (w, steps, training_of(len(steps), pull)), 1.0),
            ][rng.integers(7)]
        )
    return made


def training_of(steps: int, pull: float | None) -> Training:
    return Training(Adam(), (0.05,) * steps, 2.0, pull, kept=pull is not None)


def rows(
    evaluator: CompiledEvaluator, work: Work, clients: NDArray[np.int64]
) -> NDArray[np.floating] | None:
    """Return the results of the same work of several clients."""
    ticket = evaluator.submit_rows(work, clients)
    return None if ticket is None else evaluator.rows(ticket)


def results(evaluator: SerialEvaluator | CompiledEvaluator, works: Sequence[Work]) -> list[Array]:
    tickets = [evaluator.submit(work) for work in works]
    return [evaluator.result(ticket) for ticket in tickets]  # type: ignore[arg-type]  # its own


STORED = every(
    ("sparse", "features"),
    [(False, 6), (False, WIDE), (True, 6)],
)
"""The ways in which rows are stored."""


@pytest.mark.slow
@STORED
@every("loss", LOSSES)
def test_results_and_values_are_those_of_the_reference(
    loss: Loss, sparse: bool, features: int
) -> None:
    losses = losses_of(loss, sparse=sparse, features=features)
    if sparse and isinstance(loss, MultilayerPerceptron):
        assert not compilable(losses)
        return
    works, reference = works_of(losses, 40), SerialEvaluator(losses)
    evaluator = CompiledEvaluator(losses, 2)
    for one, other in zip(results(evaluator, works), results(reference, works), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    w = works[0].arguments[0]
    np.testing.assert_allclose(evaluator.values(w), reference.values(w), rtol=1e-10)


@pytest.mark.slow
@STORED
@every("loss", [Squared(), Logistic(), Softmax(), MultilayerPerceptron()])
def test_rows_of_several_blocks_are_all_counted_once(
    loss: Loss, sparse: bool, features: int
) -> None:
    losses = losses_of(loss, sparse=sparse, features=features, sizes=(1201, 512, 511, 1025))
    if not compilable(losses):
        return
    rng, reference = np.random.default_rng(1), SerialEvaluator(losses)
    works = []
    for client, local in enumerate(losses):
        w = rng.standard_normal(local.dimension)
        drawn = rng.choice(local.rows, 511, replace=False)
        works.append(Work(gradient, client, (w,), 1.0))
        works.append(Work(minibatch_gradient, client, (w, drawn), 1.0))
    evaluator = CompiledEvaluator(losses, 2)
    for one, other in zip(results(evaluator, works), results(reference, works), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(evaluator.values(w), reference.values(w), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", [Squared(l2=0.1), Logistic(), Softmax()], ids=named)
def test_single_precision_is_near_and_is_what_is_computed_with(loss: Loss, sparse: bool) -> None:
    losses = losses_of(loss, sparse=sparse)
    single = [each.with_precision("float32") for each in losses]
    assert single[0].arranged.X.dtype == np.float32
    works = works_of(losses, 40)
    exact = np.concatenate([each.ravel() for each in results(SerialEvaluator(losses), works)])
    for evaluator in (SerialEvaluator(single), CompiledEvaluator(single, 2)):
        found = results(evaluator, works)
        assert all(each.dtype == np.float64 for each in found)
        near = np.concatenate([each.ravel() for each in found])
        np.testing.assert_allclose(near, exact, rtol=1e-3, atol=1e-5)
        assert np.abs(near - exact).max() > 1e-10
        w = works[0].arguments[0]
        np.testing.assert_allclose(
            evaluator.values(w), SerialEvaluator(losses).values(w), rtol=1e-4
        )


@pytest.mark.slow
@examples(60, few=5)
@given(data=st.data())
def test_a_result_depends_neither_on_its_batch_nor_on_threads(data: st.DataObject) -> None:
    loss: Loss = data.draw(st.sampled_from([Squared(l1=0.1), Softmax(), MultilayerPerceptron()]))
    sparse = not isinstance(loss, MultilayerPerceptron) and data.draw(st.booleans())
    losses = losses_of(loss, sparse=sparse, features=data.draw(st.integers(1, 20)))
    works = works_of(losses, 12, data.draw(st.integers(0, 999)))
    alone = [results(CompiledEvaluator(losses, 1), [work])[0].tobytes() for work in works]
    evaluator = CompiledEvaluator(
        losses, data.draw(st.integers(1, 4)), data.draw(st.integers(1, 20))
    )
    order = data.draw(st.permutations(range(len(works))))
    withdrawn = data.draw(st.sets(st.sampled_from(order)))
    tickets = {number: evaluator.submit(works[number]) for number in order}
    for number in sorted(withdrawn):
        evaluator.withdraw(tickets[number])
    for number in data.draw(st.permutations(sorted(set(order) - withdrawn))):
        assert evaluator.result(tickets[number]).tobytes() == alone[number]
    w = works[0].arguments[0]
    np.testing.assert_array_equal(evaluator.values(w), CompiledEvaluator(losses, 1).values(w))


def test_much_work_is_done_once_while_more_comes() -> None:
    losses = losses_of(Softmax())
    works = works_of(losses, 3000)
    alone, evaluator = CompiledEvaluator(losses, 1), CompiledEvaluator(losses, 4, 100)
    tickets, found = [], []
    for number, work in enumerate(works):
        tickets.append(evaluator.submit(work))
        if number >= 700:
            found.append(evaluator.result(tickets[number - 700]))
    found += [evaluator.result(ticket) for ticket in tickets[-700:]]
    expected = results(alone, works)
    assert all((one == other).all() for one, other in zip(found, expected, strict=True))


@every("passes", [False, True])
@every("sparse", [False, True])
def test_steps_are_those_of_a_loop_that_knows_nothing_of_the_kernels(
    passes: bool, sparse: bool
) -> None:
    losses, rng = losses_of(Softmax(), sparse=sparse), np.random.default_rng(5)
    assert compilable(losses)
    rows = losses[3].arranged
    X = csr_array(rows.X).toarray()
    w = rng.standard_normal(losses[3].dimension)
    drawn = [rng.choice(18, 7, replace=False) for _ in range(30)]
    if passes:
        drawn = shuffled_passes(rng, 18, 7, 10, drop_last=False)
        assert [len(batch) for batch in drawn] == [7, 7, 4] * 10
    W = w.reshape(6, -1)
    for batch in drawn:
        scores = np.exp(X[batch] @ W)
        P = scores / scores.sum(axis=1, keepdims=True)
        W = W - 0.1 * X[batch].T @ (P - rows.t[batch]) / len(batch)
    (found,) = results(
        CompiledEvaluator(losses, 2), [Work(sgd_steps, 3, (w, 0.1, drawn, None), 1.0)]
    )
    np.testing.assert_allclose(found, W.ravel(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", LOSSES, ids=named)
def test_steps_together_are_steps_one_after_the_other(loss: Loss, sparse: bool) -> None:
    # To the last bit, though on sparse rows a feature takes steps only when a row has it: one step
    # by itself lets all of them take it.
    losses = losses_of(loss, sparse=sparse, features=60)
    if not compilable(losses):
        pytest.skip("no kernels on sparse rows")
    program, rng = CompiledProgram(losses), np.random.default_rng(4)
    for client, own in enumerate(losses):
        w = start = rng.standard_normal(own.dimension)
        sizes = -(-own.rows // 3), own.rows  # also of different sizes
        drawn = [rng.choice(own.rows, sizes[k == 3], replace=False) for k in range(5)]
        for rows in drawn:
            (w,) = program.run([Work(sgd_steps, client, (w, 0.1, [rows], None), 1.0)])
        arguments = start, 0.1, drawn, None
        (found,) = program.run([Work(sgd_steps, client, arguments, 1.0)])
        assert (found == w).all()
        (change,) = program.run([Work(sgd_change, client, arguments, 1.0)])
        assert (change == w - start).all()


@examples(60)
@given(
    seed=st.integers(0, 2**64),
    batch=st.integers(1, SIZES[-1]),
    steps=st.integers(1, 5),
    before=st.integers(0, 1),
    sparse=st.booleans(),
)
def test_minibatches_drawn_with_the_steps_are_those_drawn_before_them(
    seed: int, batch: int, steps: int, before: int, sparse: bool
) -> None:
    losses = ROWS[sparse]
    program, w = CompiledProgram(losses), np.linspace(-1, 1, losses[0].dimension)
    one, other = (np.random.default_rng(seed) for _ in range(2))
    for rng in (one, other):
        rng.integers(0, 2**31, size=before, dtype=np.int32)
    rows = losses[-1].rows
    later = LaterDraws(one, rows, batch, steps, draw_minibatches)
    drawn = draw_minibatches(other, rows, batch, steps)
    works = [Work(sgd_steps, 3, (w, 0.1, each, None), 1.0) for each in (later, drawn)]
    first, second = (program.run([work])[0] for work in works)
    assert (first == second).all()
    assert one.bit_generator.state == other.bit_generator.state
    again = LaterDraws(other, rows, batch, steps, draw_minibatches)  # used by other kernels
    assert len(again) == steps
    assert (again[0] == draw_minibatches(one, rows, batch, 1)[0]).all()


def test_what_is_not_finite_is_seen_by_the_kernels() -> None:
    losses = losses_of(Squared())
    evaluator = CompiledEvaluator(losses, 1)
    for bad in (np.nan, np.inf, -np.inf, 0.0):
        w = np.zeros(losses[0].dimension)
        w[-1] = bad
        ticket = evaluator.submit(Work(gradient, 0, (w,), 1.0))
        found = evaluator.result(ticket)
        assert evaluator.finite(ticket, found) == np.isfinite(found).all() == (bad == 0.0)


RULES: dict[str, Optimizer] = {
    "sgd": SGD(),
    "momentum": SGD(momentum=0.9, weight_decay=0.1),
    "nesterov": SGD(momentum=0.9, nesterov=True),
    "adam": Adam(weight_decay=0.1),
    "uncorrected": Adam(bias_correction=False, initial=0.1),
    "adamw": AdamW(weight_decay=0.2),
    "yogi": Yogi(),
    "adagrad": Adagrad(weight_decay=0.1, initial=0.1),
}


@every("sparse", [False, True])
@every("rule", RULES)
def test_steps_of_optimizers_are_those_of_their_rules_with_the_states(
    rule: str, sparse: bool
) -> None:
    rng, own = np.random.default_rng(7), RULES[rule]
    for loss in [Softmax(l2=0.1), Logistic(l1=0.02, l2=0.3), MultilayerPerceptron(hidden=3)]:
        losses = losses_of(loss, sparse=sparse)
        if not compilable(losses):
            continue
        program, w = CompiledProgram(losses), rng.standard_normal(losses[0].dimension)
        for clip, pull, last in itertools.product((None, 0.5), (None, 0.3), (None, 4, 7)):
            sizes = (7, 7, 7, last) if last else ()
            drawn: list[Any] = [rng.choice(18, size, replace=False) for size in sizes]
            batches = drawn or [None] * 4
            anchor = rng.standard_normal(len(w)) if pull and last else None
            state = None
            for kept in (False, True, True):
                rates = tuple(rng.uniform(0.01, 0.1, len(batches)))
                training = Training(own, rates, clip, pull, state, kept, anchor=anchor)
                work = Work(optimizer_steps, 3, (w, batches, training), 1.0)
                (found,) = program.run([work])
                expected = optimizer_steps(losses[3], w, batches, training)
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)
                state = pack_state(expected[len(w) :]) if kept else None


def test_a_state_is_that_of_the_model_and_finite() -> None:
    losses, w = losses_of(Squared()), np.ones(6)
    training = Training(Adam(), (0.1, 0.1), state=np.zeros(12), kept=True)
    evaluator = CompiledEvaluator(losses, 1)
    with pytest.raises(ValueError, match=r"got a state of shape \(12,\); expected \(13,\)"):
        evaluator.submit(Work(optimizer_steps, 0, (w, (None, None), training), 1.0))
    elsewhere = Training(Adam(), (0.1, 0.1), pull=1.0, anchor=np.zeros(5))
    with pytest.raises(ValueError, match=r"got a model of shape \(5,\); expected \(6,\)"):
        evaluator.submit(Work(optimizer_steps, 0, (w, (None, None), elsewhere), 1.0))
    for last, finite in ((0.0, True), (np.inf, False)):
        state = np.array([*np.zeros(12), last])
        work = Work(optimizer_steps, 0, (w, (None, None), training._replace(state=state)), 1.0)
        ticket = evaluator.submit(work)
        found = evaluator.result(ticket)
        assert found[6] == 2
        assert evaluator.finite(ticket, found) == np.isfinite(found).all() == finite


def test_work_that_names_a_row_that_is_none_fails_alone() -> None:
    losses = losses_of(Squared())
    good = works_of(losses, 6)
    w = np.ones(6)
    bad = Work(minibatch_gradient, 2, (w, np.array([0, 7])), 1.0)
    evaluator = CompiledEvaluator(losses, 2)
    tickets = [evaluator.submit(work) for work in (*good, bad, *good)]
    for ticket, work in zip(tickets[:6], good, strict=True):
        assert (evaluator.result(ticket) == results(CompiledEvaluator(losses, 1), [work])[0]).all()
    with pytest.raises(IndexError, match="client 2 has drawn a row that it does not have"):
        evaluator.result(tickets[6])
    with pytest.raises(ValueError, match=r"got a model of shape \(5,\); expected \(6,\)"):
        evaluator.result(evaluator.submit(Work(gradient, 0, (np.ones(5),), 1.0)))


def test_rows_may_be_counted_from_the_end_as_in_an_array() -> None:
    losses, w = losses_of(Squared()), np.linspace(-1, 1, 6)
    works = [Work(minibatch_gradient, 2, (w, np.array(drawn)), 1.0) for drawn in ([-1, 2], [6, 2])]
    one, other = results(CompiledEvaluator(losses, 1), works)
    assert (one == other).all()


PRINT = """
from tests.problems.evaluators.test_compiled import digest
print(digest())
"""


def digest() -> str:
    """Return a hash of results of all kernels."""
    found = sha256()
    for loss in (Softmax(), MultilayerPerceptron(), Logistic()):
        for sparse, features in ((False, 9), (False, WIDE), (True, 9)):
            losses = losses_of(loss, sparse=sparse, features=features)
            if compilable(losses):
                program = CompiledProgram(losses)
                works = [work for work in works_of(losses, 20) if program.takes(work)]
                for work in works:  # results differ in length
                    found.update(program.run([work]).tobytes())
                found.update(program.values(works[0].arguments[0], 0, 4).tobytes())
    return found.hexdigest()


@pytest.mark.slow
def test_kernels_from_the_cache_compute_what_those_just_compiled_do() -> None:
    command = [sys.executable, "-c", PRINT]
    other = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    assert other.stdout.strip() == digest()


@pytest.mark.slow
def test_no_kernel_reads_or_writes_beyond_an_array(tmp_path: Path) -> None:
    """Compiled with checks, which raise an IndexError there; unoptimised code has the same ones."""
    command = [sys.executable, "-c", PRINT]
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    other = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | checked
    )
    assert other.returncode == 0, other.stderr
    assert len(other.stdout.strip()) == 64


def test_sources_that_are_the_same_share_a_kernel_wherever_they_lie(tmp_path: Path) -> None:
    taken = []
    for place in ("one", "other"):
        file = tmp_path / place / "package" / "doubling.py"
        file.parent.mkdir(parents=True)
        file.write_text("def twice(number):\n    return 2 * number\n", encoding="utf-8")
        kernel: Any = cached_kernel(run_path(str(file))["twice"], str(tmp_path / "kernels"))
        assert kernel(2) == 4
        taken.append(sum(kernel.stats.cache_hits.values()))
    assert taken == [0, 1]


def test_every_piece_of_a_page_is_done_in_its_own_place() -> None:
    losses = losses_of(Squared(l2=0.1))
    program, rng = CompiledProgram(losses), np.random.default_rng(2)
    models = rng.standard_normal((len(losses), losses[0].dimension))
    works = [Work(gradient, client, (w,), 1.0) for client, w in enumerate(models)]
    wanted = [loss.gradient(w) for loss, w in zip(losses, models, strict=True)]
    np.testing.assert_allclose(program.run(works), wanted, rtol=1e-10)


@examples(40)
@given(
    loss=st.sampled_from([Squared(l2=0.1), Softmax(), MultilayerPerceptron()]),
    threads=st.integers(1, 3),
    whose=st.sets(st.integers(0, 8), min_size=1).map(sorted),
    each=st.booleans(),
    batch=st.integers(1, 9),
)
def test_a_group_computes_what_its_clients_do_each_by_itself(
    loss: Loss, threads: int, whose: list[int], each: bool, batch: int
) -> None:
    rng = np.random.default_rng(11)
    losses = Problem.of(
        loss, [Samples(rng.standard_normal((9, 5)), np.arange(9.0) % 3) for _ in range(9)]
    ).losses
    evaluator, clients = CompiledEvaluator(losses, threads), np.array(whose)
    (all_of_them,) = evaluator.alike(clients)
    assert all_of_them.tolist() == list(range(len(whose)))
    size = losses[0].dimension
    models = rng.standard_normal((len(whose), size)) if each else rng.standard_normal(size)
    streams, own = (EntityStreams(Streams(7), "client", 9) for _ in range(2))
    for _ in range(2):
        later = LaterDraws(StreamGroup(streams, clients), 9, batch, 3, draw_minibatches)
        group: dict[Callable[..., Array], tuple[Any, ...]] = {
            gradient: (models,),
            sgd_steps: (models, 0.1, (None,) * 2, 0.3),
            sgd_change: (models, 0.1, later, None),
            optimizer_steps: (models, (None,) * 2, training_of(2, None)),
        }
        for kernel, arguments in group.items():
            found = rows(evaluator, Work(kernel, whose[0], arguments, 1.0), clients)
            assert found is not None
            for row, client in enumerate(whose):
                w = models[row] if each else models
                drawn = LaterDraws(own.of(client), 9, batch, 3, draw_minibatches)
                alone = w, *(drawn if each is later else each for each in arguments[1:])
                (expected,) = results(evaluator, [Work(kernel, client, alone, 1.0)])
                assert (found[row] == expected).all()
    states = [[s.of(client).bit_generator.state for client in whose] for s in (streams, own)]
    assert states[0] == states[1]


def test_a_group_that_others_have_not_finished_yet_is_waited_for() -> None:
    losses = losses_of(Squared())
    evaluator, clients = CompiledEvaluator(losses, 3), np.arange(3, 4).repeat(50)
    work = Work(gradient, 3, (np.ones(6),), 1.0)
    (expected,) = results(evaluator, [work])
    for _ in range(200):
        found = rows(evaluator, work, clients)
        assert found is not None
        assert (found == expected).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_groups_are_pending_together_and_fetched_in_any_order(threads: int) -> None:
    losses = losses_of(Squared())
    evaluator, rng = CompiledEvaluator(losses, threads), np.random.default_rng(5)
    reference = CompiledEvaluator(losses, 1)

    def expected(client: int, w: Array) -> Array:
        return results(reference, [Work(gradient, client, (w,), 1.0)])[0]

    for _ in range(60):
        cohorts = [rng.integers(len(losses), size=size) for size in rng.integers(1, 30, size=5)]
        models = rng.standard_normal((len(cohorts), 6))
        works = [
            Work(gradient, int(own[0]), (w,), 1.0) for own, w in zip(cohorts, models, strict=True)
        ]
        tickets = [
            evaluator.submit_rows(work, own) for work, own in zip(works, cohorts, strict=True)
        ]
        first, alone = int(cohorts[0][0]), evaluator.submit(works[0])
        for place in rng.permutation(len(cohorts))[1:].tolist():  # one is not asked for
            ticket = tickets[place]
            assert ticket is not None
            found = evaluator.rows(ticket)
            assert found is not None
            for row, client in zip(found, cohorts[place].tolist(), strict=True):
                assert (row == expected(client, models[place])).all()
        tickets.clear()  # what is still computed keeps what it is computed from
        assert (evaluator.result(alone) == expected(first, models[0])).all()


def test_a_group_is_refused_what_it_cannot_compute_before_anything_is_drawn() -> None:
    losses, clients = losses_of(Squared()), np.array([2])
    evaluator, w = CompiledEvaluator(losses, 2), np.ones(6)
    assert rows(evaluator, Work(value, 2, (w,), 1.0), clients) is None
    assert rows(evaluator, Work(minibatch_gradient, 2, (w, np.arange(3)), 1.0), clients) is None
    assert rows(evaluator, Work(gradient, 2, (w * np.inf,), 1.0), clients) is None
    with pytest.raises(ValueError, match=r"got models of shape \(2, 6\); expected \(1, 6\)"):
        rows(evaluator, Work(gradient, 2, (np.ones((2, 6)),), 1.0), clients)
    streams = EntityStreams(Streams(7), "client", 4)
    many = LaterDraws(StreamGroup(streams, clients), 10_001, 3, 1, draw_minibatches)
    assert rows(evaluator, Work(sgd_steps, 2, (w, 0.1, many, None), 1.0), clients) is None
    assert not streams.drawn
    with pytest.raises(TypeError, match="minibatches of many clients"):
        many[0]
    assert evaluator.alike(np.arange(4))[0].tolist() == [0]
    assert CompiledEvaluator(losses_of(Squared(), sparse=True), 1).alike(clients) == []
