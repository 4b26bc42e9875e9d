"""The progress table of a campaign says what goes on before its first round, too."""

import io

from rich.console import Console

from fedsim.cli import watching
from fedsim.running.execution import RunProgress


def test_until_a_run_tells_of_itself_the_problem_is_built() -> None:
    shown = io.StringIO()
    console = Console(file=shown, width=200, force_terminal=True)
    with watching.progress_table(console, 2) as watch:
        pass
    assert "reading data, building and solving" in shown.getvalue()
    shown.truncate(0)
    with watching.progress_table(console, 2) as watch:
        shown.truncate(0)
        watch(RunProgress("base", 1, "gd", rounds=9, round=3, objective=0.5))
    last = shown.getvalue().rpartition("all runs")[2]
    assert "0 of 2" in last
    assert "building" not in last
