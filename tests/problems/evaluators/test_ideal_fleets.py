"""On ideal clients work takes no time, and still all that begins at one instant is batched."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from fedsim.core.ports import Array, Work
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.results.record.recorder import RunRecorder
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.sim.world import World
from tests.methods import AVERAGES, METHODS, PEERS, scenario
from tests.tiers import some

CLIENTS = 6


class Together(SerialEvaluator):
    """Computes as the serial evaluator does, and asks to be given work together.

    Attributes:
        most: the largest number of pieces of work that were pending at once.
    """

    together = True

    def __init__(self, job: Job) -> None:
        super().__init__(job.problem.losses)
        self._pending = 0
        self.most = 0

    def submit(self, work: Work) -> Any:
        self._pending += 1
        self.most = max(self.most, self._pending)
        return super().submit(work)

    def result(self, ticket: Any) -> Array:
        self._pending -= 1
        return super().result(ticket)

    def withdraw(self, ticket: Any) -> None:
        self._pending -= 1


def job_of(kind: str, **more: Any) -> Job:
    written = {**scenario(kind), "fleet": [{"count": CLIENTS}], "stop": {"rounds": 3}, **more}
    plan = load(written, overrides=["problem.optimum=unknown"])
    return Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0])


Logs = tuple[pd.DataFrame, pd.DataFrame]
"""The log of a run, and its table of rounds."""


def log(job: Job, folder: Path, evaluator: SerialEvaluator) -> Logs:
    with RunRecorder(folder, len(job.members)) as book:
        world = World(replace(job.setup, evaluator=evaluator), book)
        world.close(world.run())
    return pd.read_parquet(folder / "events.parquet"), pd.read_parquet(folder / "rounds.parquet")


def in_any_order(rows: pd.DataFrame) -> list[str]:
    """Return the rows without their number, sorted."""
    return sorted(str(row) for row in rows.drop(columns="seq").itertuples(index=False))


def both_logs(kind: str, folder: Path, **more: Any) -> tuple[Logs, Logs, int]:
    """Return the logs without and with work that is given together, and how much was at once.

    The latter is played as events: in arrays, one handler may compute for all clients itself.
    """
    job, again = job_of(kind, **more), job_of(kind, **more)
    together = Together(again)
    alone = log(job, folder / "alone", SerialEvaluator(job.problem.losses))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSIM_ROUNDS", "events")
        return alone, log(again, folder / "together", together), together.most


ONE_BY_ONE = {"fedasync", "fedbuff"}
"""Methods whose clients are asked one by one, after the first time."""

GO_ON = {"streaming-diloco"}
"""Methods whose clients compute after their replies."""


IN_PAIRS = {"ad-psgd"}
"""Methods whose nodes meet as their gradients come: where none takes time, that is the order in
which these are computed, and each exchange depends on it. docs/peers.md says so."""


@pytest.mark.parametrize("kind", some([*METHODS, *PEERS], "chb", "fedavg", "scaffold", "d-psgd"))
def test_all_work_of_an_instant_is_submitted_before_a_result_and_the_rows_are_the_same(
    kind: str, tmp_path: Path
) -> None:
    alone, together, most = both_logs(kind, tmp_path)
    assert most == CLIENTS or kind in ONE_BY_ONE or (kind in AVERAGES and most == 0)
    if kind in IN_PAIRS:
        return
    if kind in {"chb", "fedavg", *ONE_BY_ONE}:  # which compute once an answer
        assert_frame_equal(together[0], alone[0])
    if kind in GO_ON:  # the run may end in the middle of the last instant's work
        alone, together = (
            (each[0][each[0]["round"] < each[0]["round"].max()], each[1])
            for each in (alone, together)
        )
    assert in_any_order(together[0]) == in_any_order(alone[0])
    # Of what peers send at one instant, another part may count to the round before.
    columns = ["objective"] if kind in PEERS else list(alone[1].columns)
    assert_frame_equal(together[1][columns], alone[1][columns])


POLICIES: list[dict[str, Any]] = [
    {"kind": "uniform", "count": 3},
    {"kind": "uniform", "count": 5, "deadline": "1 s"},
    {"kind": "weighted", "count": 2},
    {"kind": "asynchronous", "buffer": 2},
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["kind"])
def test_whoever_is_asked_the_log_is_the_same(policy: dict[str, Any], tmp_path: Path) -> None:
    alone, together, most = both_logs("fedavg", tmp_path, participation=policy)
    for own, reference in zip(together, alone, strict=True):
        assert_frame_equal(own, reference)
    assert most >= 2
