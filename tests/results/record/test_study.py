"""What a folder of runs says of itself: whatever is in its file, it is read or refused."""

import json
from pathlib import Path

import pytest

from fedsim.core.errors import DataError
from fedsim.results.record.folder import STUDY
from fedsim.results.record.manifest import SEAL, as_json, seal
from fedsim.results.record.studies import Study, read_study


def test_a_study_is_read_as_it_was_written(tmp_path: Path) -> None:
    study = Study("wine", "wine.yaml", {"base": "0a"}, priced=True, seeds={"base": [1, 2]})
    assert read_study(tmp_path) is None
    study.write(tmp_path / "out")
    assert read_study(tmp_path / "out") == study


@pytest.mark.parametrize(
    ("key", "wrong"), [("name", 7), ("variants", ["base"]), ("seeds", {"base": "one"})]
)
def test_a_study_of_another_shape_is_damaged_though_it_is_sealed(
    key: str, wrong: object, tmp_path: Path
) -> None:
    Study("wine").write(tmp_path)
    content = json.loads((tmp_path / STUDY).read_text(encoding="utf-8"))
    content.pop(SEAL)
    (tmp_path / STUDY).write_text(as_json(seal(content | {key: wrong})), encoding="utf-8")
    with pytest.raises(DataError, match=f"{STUDY} is damaged"):
        read_study(tmp_path)
