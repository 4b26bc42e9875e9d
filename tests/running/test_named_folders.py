"""Names that others give: of variants, which are folders, and cells, which spreadsheets read."""

from io import BytesIO

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import fedsim
from fedsim.core.text import as_csv
from fedsim.results.record.variants import RESERVED, is_reserved
from tests.runs import small
from tests.tiers import every


@every("name", [*RESERVED, "Comparison", "seed-1", "SEED-x"])
def test_a_variant_is_called_as_nothing_else_in_a_study(name: str) -> None:
    with pytest.raises(fedsim.ScenarioError, match="another file in the folder of a study"):
        fedsim.load(small(variants={name: {"stop": {"rounds": 2}}}))


@pytest.mark.parametrize("pair", [("fast", "FAST"), ("a", "A"), ("x-1", "X-1")])
def test_names_that_differ_by_case_alone_are_refused(pair: tuple[str, str]) -> None:
    rounds = [{"stop": {"rounds": number}} for number in (2, 3)]
    with pytest.raises(fedsim.ScenarioError, match="some file systems ignore case"):
        fedsim.load(small(variants=dict(zip(pair, rounds, strict=True))))


def test_a_sweep_makes_no_such_name() -> None:
    keys = {"algorithm.censor": [0.1, 0.2], "stop.rounds": [2, 3]}
    for key, values in keys.items():
        plan = fedsim.load(small(sweep={key: values}))
        assert not [each.name for each in plan.variants if is_reserved(each.name)]


def test_no_cell_is_a_formula_and_numbers_stay_numbers() -> None:
    frame = pd.DataFrame(
        {
            "=name": ["=1+1", "+a", "-b", "@c", "\tx", "plain", "-", "-2.5e-3"],
            "number": [-1.5, 0.0, float("nan"), float("-inf"), 1e300, -0.1, 3.0, 4.0],
            "count": [-1, 2, 3, 4, 5, 6, 7, 8],
        }
    )
    read = pd.read_csv(BytesIO(as_csv(frame)))
    texts = ["'=1+1", "'+a", "'-b", "'@c", "'\tx", "plain", "-", "-2.5e-3"]
    assert_frame_equal(read, frame.assign(**{"=name": texts}).rename(columns={"=name": "'=name"}))
    assert as_csv(frame[["number"]]) == frame[["number"]].to_csv(index=False).encode()
