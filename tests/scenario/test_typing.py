"""A type checker takes what a constructor takes: texts with units, names of presets, lists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.locks import cache_of_mypy

RIGHT = """
from fedsim.scenario import Compression, UniformParticipation, Wire

group = Group(count=6, device="phone-mid", radio={"kind": "wifi", "up": "5 Mbit/s"}, battery=None)
other = Group(device={"kind": "pi-4", "speed": "1 Gflop/s"}, battery={"capacity": "15 Wh"})
link = ServerLink(uplink="5 Mbit/s", downlink="unlimited", latency="5 ms")
named = Scenario(
    problem={"loss": "logistic", "data": {"kind": "sklearn", "name": "iris"}},
    algorithm={"kind": "gd", "step_size": "1/L"},
    fleet=[group, {"count": 2}],
    measures=["gradient_norm"],
    silence="beacon",
    participation=UniformParticipation(count=2, deadline="30 s"),
    wire=Wire(values="float64", up=Compression(compressor="identity")),
    stop=Stop(rounds=3, time="1 s", energy=None),
)
rate: float = link.uplink
seconds: float | None = named.stop.time
count: int = named.fleet[0].count
"""

WRONG = {
    'Group(devise="pi-4")': 'keyword argument "devise" for "Group"; did you mean "device"',
    "Group(device=4)": 'Argument "device" to "Group" has incompatible type "int"',
    "ServerLink(uplink=5e6)": 'Argument "uplink" to "ServerLink" has incompatible type "float"',
    "Stop(time=30)": 'Argument "time" to "Stop" has incompatible type "int"',
    "Group().radio.kind + 1": "Unsupported operand types",
}


def checked(folder: Path, text: str) -> str:
    """Return what mypy says of a file that somebody writes, with the cache of the project."""
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    with cache_of_mypy() as cache:
        words = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache)]
        command = [sys.executable, "-m", "mypy", *words, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def objects() -> str:
    """The page's scenario of objects."""
    page = (ROOT / "docs/howto/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (found,) = (block for block in blocks if "Scenario(" in block)
    return str(found)


@pytest.mark.slow
@pytest.mark.first(2)
def test_what_a_user_writes_has_the_types_that_it_is_taken_for(
    objects: str, tmp_path: Path
) -> None:
    lines = objects + RIGHT
    wrong = "\n".join(WRONG)
    said = checked(tmp_path, f"{lines}\n{wrong}\n")
    first = len(lines.splitlines()) + 2
    told = [line for line in said.splitlines() if ": error:" in line]
    assert len(told) == len(WRONG), said
    for number, (line, expected) in enumerate(zip(told, WRONG.values(), strict=True), first):
        assert f"mine.py:{number}: error: " in line
        assert expected in line


def test_what_has_these_types_can_be_made(objects: str) -> None:
    made: dict[str, object] = {}
    exec(objects.replace("fedsim.check(scenario)", "None").split("check =")[0] + RIGHT, made)  # noqa: S102 - our own
    assert made["rate"] == 5e6
    assert made["seconds"] == 1.0
