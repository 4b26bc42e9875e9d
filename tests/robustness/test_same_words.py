"""compare, the report and robust say the same of the same study."""

from pathlib import Path

import pytest

import fedsim
from fedsim.analysis import Comparison
from fedsim.report import overview
from fedsim.report.study import ReportedStudy
from tests.runs import small


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3, 6])
def test_verdicts_and_ratios_are_the_same_everywhere(seeds: int, tmp_path: Path) -> None:
    fleet = [{"count": 5, "device": "phone-mid", "radio": "lte"}]
    gd = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
    fedsim.run(
        small(fleet=fleet, variants={"gd": gd}, seeds=seeds, stop={"rounds": 20}), out=tmp_path
    )
    comparison = Comparison.of([tmp_path])
    (case,) = comparison.cases
    known = fedsim.robust(tmp_path, worlds=16)
    by_worlds = known.verdicts[known.verdicts["against"] == comparison.against]
    pairs = case.pairs.set_index("cost")
    (_, page) = overview.tables(ReportedStudy(comparison))
    of_page = {row[1].text: row[-1].text for row in page.rows}
    for cost, head in (("t", "time"), ("joules", "energy")):
        (row,) = by_worlds[by_worlds["cost"] == cost].to_dict("records")
        assert row["by_seed"] == pairs["verdict"][cost] == of_page[head]
        assert row["ratio"] == pytest.approx(pairs["ratio"][cost], rel=1e-9)
