"""The progress table of a campaign says what goes on before its first round, too."""

import io
from typing import Any, ClassVar, Literal, cast

import pytest
from rich.console import Console

import fedsim
from fedsim.algorithms.censored import GradientDescent
from fedsim.cli import progress
from fedsim.core.progress import activity, current_activity
from fedsim.running import workers
from fedsim.running.run import RunProgress
from tests.runs import small


def test_until_a_run_tells_of_itself_the_problem_is_built() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=200, force_terminal=True)
    with progress.progress_table(console, 2) as watch:
        pass
    assert "reading data, building and solving" in shown.getvalue()
    shown.truncate(0)
    with progress.progress_table(console, 2) as watch:
        shown.truncate(0)
        watch(RunProgress("base", 1, "gd", rounds=9, round=3, objective=0.5))
    last = shown.getvalue().rpartition("all runs")[2]
    assert "0 of 2" in last
    assert "building" not in last


def test_what_takes_long_says_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_LONG", 0.0)
    shown = io.StringIO()
    console = Console(file=shown, width=200, force_terminal=True)
    with progress.progress_table(console, 2) as watch:
        with activity("reading data"):
            assert "0 of 2, reading data" in drawn(watch, shown)
        watch(RunProgress("base", 1, "gd", rounds=9, round=2, objective=0.5))
        with activity(lambda: "round 3: 7 of 8 answered"):
            line = drawn(watch, shown)
        assert "base, seed 1" in line
        assert "round 3: 7 of 8 answered" in line
        watch(RunProgress("base", 2, "gd", rounds=9, doing="round 1: 4 of 8 answered"))
        assert "round 1: 4 of 8 answered" in drawn(watch, shown)


def drawn(watch: Any, shown: io.StringIO) -> str:
    """Draw the table anew, and return what it shows."""
    shown.truncate(0)
    watch._progress.refresh()
    return shown.getvalue()


class Nosy(GradientDescent):
    """Notes what goes on whenever a client is asked."""

    kind: Literal["nosy"] = "nosy"  # type: ignore[assignment] # a kind of its own
    seen: ClassVar[list[str]] = []

    async def handle(self, client: Any, message: Any) -> Any:
        self.seen.append(current_activity())
        return await super().handle(client, message)


def test_a_round_says_how_many_have_answered() -> None:
    nosy = {"kind": "nosy", "step_size": "1/L"}
    fedsim.run(small(algorithm=nosy, stop={"rounds": 2}), blocks=[Nosy])
    assert "making clients" in Nosy.seen[0]
    second = Nosy.seen[5:]
    assert second[0] == "round 2: 0 of 5 answered"
    assert all("round 2" in words and "of 5 answered" in words for words in second)
    assert current_activity() == ""


@pytest.mark.parametrize(("runs", "visible"), [(1, True), (20, True), (21, False)])
def test_the_bar_of_a_run_that_has_ended_is_full_and_stays_where_runs_are_few(
    runs: int, visible: bool
) -> None:
    console = Console(file=io.StringIO(), width=200)
    with progress.progress_table(console, runs) as watch:
        watch(RunProgress("base", 1, "gd", rounds=9, round=3, objective=0.5))
        watch(RunProgress("base", 1, "gd", rounds=9, round=4, objective=0.25, ended=True))
        whole, line = cast("Any", watch)._progress.tasks
    assert (whole.completed, whole.fields["state"]) == (1, f"1 of {runs}")
    assert (line.completed, line.total, line.visible) == (9, 9, visible)
    assert line.fields["state"] == "round 4, objective 0.25"


class Turns:
    """An event that is set after so many waits."""

    def __init__(self, waits: int) -> None:
        self.left = waits

    def wait(self, timeout: float) -> bool:
        assert timeout >= 0
        self.left -= 1
        return self.left < 0


def test_a_worker_reports_what_goes_on_of_the_run_that_goes_on_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "_LONG", 0.0)
    sent = list[RunProgress]()
    reporter = workers.ProgressReporter(sent.append, pause=0.0)
    begun = RunProgress("base", 1, "gd", rounds=9)
    reached = begun._replace(round=1, objective=0.5)
    ended = reached._replace(round=9, ended=True)

    def wait() -> list[RunProgress]:
        sent.clear()
        reporter.report_until(cast("Any", Turns(1)))
        return [*sent]

    with activity("reading data"):
        assert wait() == []
        reporter.begin_run(begun)
        assert wait() == [begun._replace(doing="reading data")]
        reporter(reached)
        assert wait() == [reached._replace(doing="reading data")]
        reporter(ended)
        assert sent[-1] == ended
        assert wait() == []
