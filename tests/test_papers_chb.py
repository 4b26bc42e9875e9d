"""CHB's papers in a reduced form: what the scripts make of their runs, and the claims as laws."""

import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import fedsim
from tests.conftest import ROOT
from tests.scripts import script

# The synthetic scenarios censor harshly on purpose.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")]

PAPERS = ROOT / "analysis/papers"

ijcnn1 = script("papers/chb")
synthetic = script("papers/chb_synthetic")
mnist = script("papers/chb_mnist")


def text(table: Any) -> str:
    """Return a table as it is printed."""
    console = Console(width=200, file=StringIO(), record=True)
    console.print(table)
    return console.export_text()


# -- synthetic -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linear() -> dict[str, fedsim.Result]:
    """Return linear regression under both readings of the step size, one seed."""
    readings = (synthetic.WHOLE, synthetic.ADDED)
    return {each: synthetic.ran("linear", each, None, ["seeds=1"]) for each in readings}


def test_the_readings_are_two_step_sizes(linear: dict[str, fedsim.Result]) -> None:
    """L_m = 1.69^(m-1), and the sum of losses is at most as steep as their L_m together."""
    whole, added = (result.summary["parameters.step_size"].unique() for result in linear.values())
    assert len(whole) == len(added) == 1
    assert added[0] == pytest.approx(0.69 / (1.69**9 - 1), rel=1e-12)
    assert 0.69 / (1.69**9 - 1) < whole[0] < 1 / 1.69**8


def test_a_worker_with_a_flat_loss_transmits_in_at_most_half_of_the_iterations(
    linear: dict[str, fedsim.Result],
) -> None:
    """Lemma 2, from the log: nowhere two transmissions in a row, once the first is made."""
    constants = 1.69 ** np.arange(9)
    for result in linear.values():
        (eps1,) = result.summary.set_index("variant").loc[["base"], "parameters.eps1"]
        events = result.events
        sent = events[(events["variant"] == "base") & (events["message"] == "innovation")]
        flat = [f"client-{m}" for m in range(9) if constants[m] ** 2 <= eps1]
        assert 3 <= len(flat) < 9
        for worker in flat:
            iterations = sent.loc[(sent["event"] == "send") & (sent["node"] == worker), "round"]
            assert iterations.iloc[0] == 1
            assert (np.diff(iterations) > 1).all()


def test_the_claims_hold_of_linear_regression(linear: dict[str, fedsim.Result]) -> None:
    for result in linear.values():
        (run,) = synthetic.seeds("linear", result)
        seen = {claim: function(run) for claim, function in synthetic.CLAIMS.items()}
        assert all(value for value in seen.values() if isinstance(value, bool))
        ratios = [value for value in seen.values() if not isinstance(value, bool)]
        about, mild, saved, harsh = ratios
        assert about == pytest.approx(1.0, abs=0.2)
        assert mild == pytest.approx(1.0, abs=0.1)
        assert saved < 0.8
        assert harsh > 1.0


def test_what_is_counted_is_what_the_round_table_has(linear: dict[str, fedsim.Result]) -> None:
    for result in linear.values():
        (run,) = synthetic.seeds("linear", result)
        summary = result.summary.set_index("variant")
        for name in synthetic.LABELS:
            assert run.sent[name].shape == (summary.loc[name, "rounds"], 9)
            assert run.sent[name].sum() == summary.loc[name, "transmissions"]


def test_logistic_regression_saves_where_the_server_knows_only_the_sum_of_the_constants() -> None:
    shares = {}
    for reading in (synthetic.WHOLE, synthetic.ADDED):
        result = synthetic.ran("logistic", reading, None, ["seeds=1"])
        (run,) = synthetic.seeds("logistic", result)
        shares[reading] = run.more("base", "hb")[0]
        assert synthetic.halves(run) is None  # no worker is flat enough for the lemma
    assert shares[synthetic.WHOLE] == 1.0
    assert shares[synthetic.ADDED] < 0.7


def test_the_synthetic_script_prints_and_draws(
    linear: dict[str, fedsim.Result],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(synthetic, "ran", lambda task, reading, *_: linear[reading])
    monkeypatch.setattr(synthetic, "FIGURES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["chb_synthetic", "linear"])
    synthetic.main()
    printed = capsys.readouterr().out
    assert printed.strip().endswith(".")
    assert "Lemma 2" in printed
    names = {"linear-whole", "linear-added", "workers"}
    assert {path.stem for path in tmp_path.iterdir()} == {f"chb-synthetic-{n}" for n in names}


# -- ijcnn1 ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tasks(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return two tasks after a few rounds; tests/test_published.py has all of them."""
    out, few = tmp_path_factory.mktemp("chb"), ["stop.rounds=6", "seeds=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDSIM_DATA", str(data_folder))
        return {task: ijcnn1.ran(task, out, few) for task in ("linear", "network")}


def test_every_task_has_its_rows_and_its_figure(tasks: dict[str, fedsim.Result]) -> None:
    printed = text(ijcnn1.table(tasks))
    assert printed.count("chb") == len(tasks)
    for task, result in tasks.items():
        assert (result.summary["status"] == "done").all()
        assert (result.rounds["joules"] > 0).all()
        figure = ijcnn1.draw(task, result)
        assert len(figure.axes) == 4
        assert all(len(axis.lines) == 4 for axis in figure.axes)


def test_what_a_target_costs_is_read_off_the_round_table(tasks: dict[str, fedsim.Result]) -> None:
    result = tasks["network"]
    table = ijcnn1.costs("network", result)
    worst = result.rounds.groupby("variant")["gradient_norm"].last().idxmax()
    assert table.loc[worst, "round"] == 6
    assert (table["round"] <= 6).all()
    own = result.rounds[result.rounds["variant"] == worst]
    assert table.loc[worst, "joules"] == pytest.approx(own["joules"].sum(), rel=1e-12)
    assert table.loc[worst, "bits"] == (own["bits_up"] + own["bits_down"]).sum()
    said = ijcnn1.finding("network", ijcnn1.spent("network", result))
    assert said.endswith(".")
    assert said.count("<") + said.count("~") + said.count("=") >= len(ijcnn1.LABELS) - 1


# -- MNIST -----------------------------------------------------------------------------


def test_mnist_in_a_reduced_form(real_data: Path, tmp_path: Path) -> None:
    """Linear regression, 20 iterations: the counts are those of a computation with X^T X."""
    if not (real_data / "mnist").is_dir():
        pytest.skip(f"no mnist in {real_data}")
    tables, _ = mnist.run("mnist-linear", tmp_path, ["stop.rounds=20"], figures=tmp_path)
    assert (tmp_path / "chb-mnist-linear.png").exists()
    rows = [line.split() for line in text(tables[0]).splitlines()]
    measured = {row[0]: row[2] for row in rows if row and row[0] in mnist.LABELS.values()}
    assert measured == {"CHB": "18", "LAG": "18", "HB": "180", "GD": "180"}
