"""The route of a message through the code: from `client.pack` to its row of the log."""

import re
import sys
from itertools import groupby
from pathlib import Path
from types import FrameType

import pytest
from ruamel.yaml import YAML

import fedsim
from fedsim.results.record.log import EventLog
from fedsim.sim.arrays.fits import VARIABLE
from fedsim.sim.client import SimClient
from tests.conftest import ROOT

MOST = 13
"""The files of fedsim that one message may pass."""

MOST_VISITS = 26
"""How often it may enter a file; its first entries are among them."""

PACKAGE = str(ROOT / "fedsim")

PACK = SimClient.pack.fget.__code__  # type: ignore[attr-defined]  # a property

ROWS = EventLog.append.__code__, EventLog.append_message.__code__

THIRD = 3
"""The message that is followed: what is made for the first message only is there by then."""


class Follower:
    """A profiler that notes the file of every function called while one message travels."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._packed = 0
        self._follows = False

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code is PACK:
            self._packed += 1
            self._follows = self._packed == THIRD
        if event != "call" or not (self._follows and code.co_filename.startswith(PACKAGE)):
            return
        self.files.append(str(Path(code.co_filename).relative_to(ROOT)))
        # The row of its sender, or both rows at once.
        given = frame.f_locals
        if code in ROWS and given.get("sender", given.get("node")) == 0 and given["payload_bits"]:
            self._follows = False


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a message of a phone enters, in order: `censoring` with one client."""
    monkeypatch.setenv(VARIABLE, "events")
    scenario = YAML(typ="safe").load(ROOT / "scenarios/censoring.yaml")
    del scenario["variants"]
    phones = scenario["fleet"][0]
    scenario["problem"]["optimum"] = "unknown"
    scenario |= {"fleet": [phones | {"count": 1}], "stop": {"rounds": THIRD + 1}}
    follower = Follower()
    sys.setprofile(follower)
    try:
        fedsim.run(scenario, out=tmp_path, jobs=1)
    finally:
        sys.setprofile(None)
    return [file for file, _ in groupby(follower.files)]


def test_a_message_passes_few_files_and_they_are_those_of_the_page(followed: list[str]) -> None:
    files = set(followed)
    assert len(files) <= MOST, sorted(files)
    assert len(followed) <= MOST_VISITS, followed
    assert followed[0].endswith("sim/client.py")
    assert followed[-1].endswith("results/record/log.py")
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = page.partition('id="message"')[2].partition("<a id=")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) <= 10
    assert set(re.findall(r"fedsim/[\w/]+\.py", "\n".join(rows))) == files
