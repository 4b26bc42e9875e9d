"""Any executor makes the runs; what a worker loses is sent again, and nothing else is lost."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.core.errors import BlockError, RunError
from fedsim.results.record.folder import SUMMARY
from fedsim.running.executors import ExecutorEngine, check_versions
from fedsim.running.workers import Known, Order, Outcome, Run, encode_order
from fedsim.scenario import load
from fedsim.scenario.registries import blocks_in
from tests.runs import files, small
from tests.tiers import every

SWEPT = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=3, stop={"rounds": 5})
RUNS = 6

DEADLY = """
import os, signal
from pathlib import Path
from typing import ClassVar, Literal
from fedsim.wire import Compressor, Contract, Dense


class Deadly(Compressor):
    '''It kills its process, unless the file `spared` exists; it leaves that behind.'''

    kind: Literal["deadly"] = "deadly"
    source: ClassVar[str] = "nobody"
    law: ClassVar[str] = "none"
    spared: str

    def compress(self, vector, rng, form):
        if not Path(self.spared).exists():
            if not self.spared.endswith("never"):
                Path(self.spared).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Dense.of(vector, form)

    def longest(self, vector, payload):
        return payload.bits

    def contract(self, dimension):
        return Contract("unbiased", 1.0)
"""


def deadly(spared: Path, seeds: int = 1) -> dict[str, Any]:
    """Return a study of which one variant kills its process."""
    up = {"compressor": {"kind": "deadly", "spared": str(spared)}}
    variants = {
        "deadly": {"wire": {"values": "float64", "up": up}},
        "fine": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
    }
    return small(variants=variants, stop={"rounds": 5}, seeds=seeds)


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as own:
        yield own


@pytest.mark.slow
def test_what_a_pool_loses_with_a_process_is_made_all_the_same(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    blocks = blocks_in([tmp_path / "deadly.py"])
    study, spared = deadly(tmp_path / "spared", seeds=2), tmp_path / "spared"
    ended = list[tuple[str, int]]()
    made = fedsim.run(
        study,
        out=tmp_path / "out",
        blocks=blocks,
        executor=pool,
        watch=lambda each: ended.append((each.variant, each.seed)) if each.ended else None,
    )
    assert spared.exists(), "a process has died"
    assert sorted(ended) == sorted({*ended})
    assert len(ended) == len(made.runs) == RUNS
    alone = fedsim.run(study, out=tmp_path / "alone", blocks=blocks).folder
    assert files(tmp_path / "out") == files(alone)


@pytest.mark.slow
def test_a_run_that_kills_a_pool_s_processes_is_named_and_the_others_are_made(
    pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    with pytest.raises(fedsim.RunError, match=r"deadly, seed 1: .* died"):
        fedsim.run(
            deadly(tmp_path / "never"),
            out=tmp_path / "out",
            blocks=blocks_in([tmp_path / "deadly.py"]),
            executor=pool,
        )
    made = sorted(path.parent for path in (tmp_path / "out").glob(f"*/*/{SUMMARY}"))
    names = [str(path.relative_to(tmp_path / "out")) for path in made]
    assert names == ["base/seed-1", "fine/seed-1"]


class Job:
    """A job as submitit has them: it reports its end to nobody.

    Args:
        result: returns its result, or raises its error.
        looks: how often it is asked before it has ended.
    """

    def __init__(self, result: Callable[[], Any], looks: int = 0) -> None:
        self._result, self._looks = result, looks

    def done(self) -> bool:
        self._looks -= 1
        return self._looks < 0

    def result(self) -> Any:
        return self._result()

    def cancel(self) -> None:
        raise AssertionError("it has ended")


class Jobs:
    """Makes runs in this process, as submitit's executor does in jobs.

    Args:
        lose: whether a task is lost, by how many were submitted before it.
        error: what the result of such a task raises.
        refuse: the number of tasks from which on none is taken.
    """

    def __init__(
        self,
        lose: Callable[[int], bool] = lambda _: False,
        error: type[Exception] = OSError,
        refuse: float = float("inf"),
    ) -> None:
        self.lose, self.error, self.refuse = lose, error, refuse
        self.submitted, self.batches = 0, list[int]()

    @contextmanager
    def batch(self) -> Iterator[None]:
        before = self.submitted
        yield
        self.batches.append(self.submitted - before)

    def submit(self, task: Callable[..., Any], *given: Any) -> Job:
        if self.submitted >= self.refuse:
            raise RuntimeError("cannot schedule new futures")
        lost = self.lose(self.submitted)
        self.submitted += 1

        def result() -> Any:
            if lost:
                raise self.error("the node is gone")
            return task(*given)

        return Job(result, looks=self.submitted % 2)


def run(jobs: Jobs, out: Path) -> fedsim.Result:
    executor: Any = jobs
    return fedsim.run(SWEPT, out=out, executor=executor)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return files(fedsim.run(SWEPT, out=tmp_path_factory.mktemp("alone")).folder)


def test_jobs_of_a_batch_system_are_sent_together_and_what_is_lost_is_sent_again(
    alone: dict[str, bytes], tmp_path: Path
) -> None:
    jobs = Jobs(lambda number: number in {0, 3})
    run(jobs, tmp_path)
    assert jobs.batches == [RUNS, 2]
    assert files(tmp_path) == alone


def test_a_run_that_is_lost_twice_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    jobs = Jobs(lambda number: number in {3, RUNS}, TimeoutError)
    named = r"censor-0.1, seed 2: its workers died, .*: TimeoutError: the node is gone"
    with pytest.raises(fedsim.RunError, match=named):
        run(jobs, tmp_path)
    assert jobs.batches == [RUNS, 1]
    assert len([*tmp_path.glob(f"*/*/{SUMMARY}")]) == RUNS - 1


def test_where_no_worker_makes_anything_one_error_says_so(tmp_path: Path) -> None:
    jobs = Jobs(lambda _: True, ModuleNotFoundError)
    said = "^no worker can make runs: ModuleNotFoundError: the node is gone$"
    with pytest.raises(fedsim.RunError, match=said):
        run(jobs, tmp_path)


@pytest.mark.parametrize(("taken", "words"), [(4, "2 runs had"), (5, "1 run had")])
def test_an_executor_that_takes_no_more_runs_ends_the_call_and_what_was_made_is_kept(
    taken: int, words: str, tmp_path: Path, alone: dict[str, bytes]
) -> None:
    with pytest.raises(fedsim.RunError, match=f"cannot schedule new futures: {words} not ended"):
        run(Jobs(refuse=taken), tmp_path)
    assert len([*tmp_path.glob(f"*/*/{SUMMARY}")]) == taken
    assert len(fedsim.run(SWEPT, out=tmp_path).runs) == RUNS
    assert files(tmp_path) == alone


class Apart(ExecutorEngine):
    apart = True


def outcomes_of(jobs: Jobs, out: Path, engine: type[ExecutorEngine]) -> dict[int, str]:
    """Return how each of three runs ended: its error, or nothing."""
    executor: Any = jobs
    order = Order(load(small(seeds=3, stop={"rounds": 2})), out)
    known = [Known(Run(0, seed)) for seed in (1, 2, 3)]
    found = engine(executor).outcomes(order, known, lambda _: None)
    return {each.run.seed: str(each.error or "") for each in found}


def test_a_run_that_is_lost_twice_before_any_is_made_does_not_end_the_others(
    tmp_path: Path,
) -> None:
    """A worker that had all three died. The run that is then sent first, alone, is lost again."""
    ends = outcomes_of(Jobs(lambda number: number < 4), tmp_path, Apart)
    (named,) = (each for each in ends.values() if each)
    assert re.match(r"base, seed \d: its workers died", named)
    assert sorted(ends) == [1, 2, 3]


def test_where_each_run_is_lost_alone_too_one_error_says_so(tmp_path: Path) -> None:
    jobs = Jobs(lambda _: True)
    with pytest.raises(fedsim.RunError, match=r"^no worker can make runs: OSError: the node"):
        outcomes_of(jobs, tmp_path, Apart)
    assert jobs.batches == [3, 1, 1, 1]


def test_an_interrupt_while_runs_are_sent_cancels_what_was_sent(tmp_path: Path) -> None:
    sent = list[Future[list[Outcome]]]()

    class Interrupted(Executor):
        def submit(self, *_: object) -> Future[list[Outcome]]:  # type: ignore[override]
            if len(sent) == 2:
                raise KeyboardInterrupt
            sent.append(Future())
            return sent[-1]

    order = Order(load(small(seeds=3)), tmp_path)
    known = [Known(Run(0, seed)) for seed in (1, 2, 3)]
    with pytest.raises(KeyboardInterrupt):
        next(ExecutorEngine(Interrupted()).outcomes(order, known, lambda _: None))
    assert [each.cancelled() for each in sent] == [True, True]


def test_an_interrupt_before_a_batch_is_sent_asks_its_jobs_nothing(tmp_path: Path) -> None:
    class Unsent(Job):
        def done(self) -> bool:
            raise AttributeError("it has not been submitted")

    class Batch(Jobs):
        def submit(self, task: Callable[..., Any], *given: Any) -> Job:
            if self.submitted:
                raise KeyboardInterrupt
            self.submitted += 1
            return Unsent(lambda: None)

    with pytest.raises(KeyboardInterrupt):
        outcomes_of(Batch(), tmp_path, ExecutorEngine)


def test_where_the_connection_breaks_runs_are_sent_again_however_often(tmp_path: Path) -> None:
    class Distant(ExecutorEngine):
        def _is_cut_off(self, task: Any, error: Exception) -> bool:
            return isinstance(error, CancelledError)

    sent = list[int]()

    class Made:
        def submit(self, _: object, __: object, ___: object, known: Known) -> Job:
            sent.append(known.run.seed)

            def result() -> list[Outcome]:
                if len(sent) <= 3 * RUNS:  # the first three times
                    raise CancelledError
                return [Outcome(known.run)]

            return Job(result)

    order = Order(load(small(seeds=RUNS)), tmp_path)
    known = [Known(Run(0, seed)) for seed in range(1, RUNS + 1)]
    executor: Any = Made()
    outcomes = [*Distant(executor).outcomes(order, known, lambda _: None)]
    assert [each.run for each in outcomes] == [each.run for each in known]
    assert sent == [*range(1, RUNS + 1)] * 4


def test_who_stops_waiting_cancels_what_has_not_begun(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        futures = list[Any]()

        class Noting(Executor):
            def submit(self, *given: Any) -> Any:  # type: ignore[override]
                futures.append(threads.submit(*given))
                return futures[-1]

        order = Order(load(small(seeds=RUNS, stop={"rounds": 2})), tmp_path)
        known = [Known(Run(0, seed)) for seed in range(1, RUNS + 1)]
        outcomes = ExecutorEngine(Noting()).outcomes(order, known, lambda _: None)
        next(outcomes)
        outcomes.close()  # type: ignore[attr-defined]
    assert futures[-1].cancelled()


@every(
    ("there", "words"),
    [
        ({"fedsim": "1", "numpy": "2"}, ""),
        ({"fedsim": "1", "numpy": "2", "more": "3"}, ""),
        ({"fedsim": "1", "numpy": "3"}, "numpy is 3 there, 2 here"),
        ({}, "fedsim is None there, 1 here; numpy is None there, 2 here"),
    ],
)
def test_a_worker_of_other_versions_is_refused_with_each_of_them(
    there: dict[str, str], words: str
) -> None:
    wanted = {"fedsim": "1", "numpy": "2"}
    if not words:
        check_versions(wanted, there)
        return
    with pytest.raises(RunError, match=f"would make other runs: {words}; install the same"):
        check_versions(wanted, there)


def test_a_class_that_was_typed_in_cannot_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(load(small(algorithm={"kind": "gd", "step_size": 0.1})), tmp_path)
    encode_order(order, script=False)
    monkeypatch.setattr(GradientDescent, "__module__", "__main__")
    with pytest.raises(BlockError, match="GradientDescent is of the script or was typed in"):
        encode_order(order, script=False)
