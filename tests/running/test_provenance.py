"""Whether a finished run is kept: as long as the code is as it was that its bytes depend on."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fedsim
from fedsim.running import imports
from fedsim.running.run import _own_code
from tests.tiers import every

PACKAGE = Path(fedsim.__file__).parent


ON_DEMAND = """
if TYPE_CHECKING:
    from a import b
    from c import d
else:
    __getattr__, __dir__ = exports(__name__)
"""


@every(
    ("text", "expected"),
    [
        ("import a", [("a", ())]),
        ("import a.b as c, d  # why", [("a.b", ()), ("d", ())]),
        ("from a import b as c, d", [("a", ("b", "d"))]),
        ("from . import b", [(".", ("b",))]),
        ("from ..a.b import c", [("..a.b", ("c",))]),
        ("from a import (\n    b,  # first, of two\n    c as d,\n)", [("a", ("b", "c"))]),
        ("from a import b, \\\n    c", [("a", ("b", "c"))]),
        ("try: import a\nexcept ImportError: pass", [("a", ())]),
        ("x = 1; import a; import b", [("a", ()), ("b", ())]),
        ("def f():\n    from a import *", [("a", ("*",))]),
        ("important = 1\nx.importer()\n# import a", []),
        ("if TYPE_CHECKING:\n    from a import b\n\nimport c", [("c", ())]),
        ("if TYPE_CHECKING:\n    from a import b\nelse:\n    import c", [("c", ())]),
        (ON_DEMAND, [("a", ("b",)), ("c", ("d",))]),
    ],
)
def test_imports_are_found(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert list(imports.imports(text)) == expected


def parsed(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the imports of a module as the parser of Python finds them."""
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, ast.If)
        or ast.unparse(node.test) != "TYPE_CHECKING"
        or "= exports(__name__)" in ast.unparse(node)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield "." * node.level + (node.module or ""), names


@pytest.mark.slow
def test_no_import_of_fedsim_itself_is_missed() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 200
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert set(parsed(ast.parse(text))) <= set(imports.imports(text)), path


def test_what_makes_a_run_is_followed_and_what_shows_it_is_not() -> None:
    root = PACKAGE / "running/run.py"
    found = imports.sources({"fedsim.running.run": root.read_bytes()})
    packages = {each for name in found.modules for each in name.split(".")[1:3]}
    made = "sim", "building", "problems", "wire", "physics", "protocol", "algorithms", "evaluators"
    assert packages >= {*made, "ports", "blocks", "scenario", "streams", "running", "record"}
    shown = "report", "analysis", "cli", "conformance", "repricing", "__main__"
    assert packages.isdisjoint(shown)
    running = {name for name in found.modules if name.startswith("fedsim.running.")}
    assert running == {"fedsim.running.run", "fedsim.running.imports"}
    assert {"fedsim.results.record.recorder", "fedsim.results.record.log"} <= set(found.modules)
    assert "fedsim.results.result" not in found.modules
    assert {"numpy", "simpy"} <= found.packages


WORLDS = """
import json, sys
import fedsim

fedavg = {"kind": "fedavg", "step_size": 0.01, "local_steps": 2}
peers = {"kind": "d-psgd", "step_size": 0.01}
ring = {"peers": {"kind": "ring"}}
for number, (method, radio, network) in enumerate(
    [
        (fedavg, "wifi", {}),
        (fedavg, "wifi", {"model": "lv08"}),
        (fedavg, "wifi", {"model": "tcp"}),
        (fedavg, "wifi", {"wifi": {}}),
        (fedavg, "lte", {"cell": {}}),
        (fedavg, "lte", {"broadcast": "cell"}),
        (fedavg, "lora-sf7", {"lora": {}}),
        (peers, "wifi", ring),
        (peers, "wifi", ring | {"medium": {}}),
    ]
):
    scenario = {
        "problem": {
            "loss": {"kind": "squared", "l2": 1.0},
            "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
            "split": {"kind": "iid"},
            "optimum": "unknown",
        },
        "algorithm": method,
        "fleet": [{"count": 3, "radio": radio}],
        "network": network,
        "stop": {"rounds": 1},
    }
    fedsim.run(scenario, out=f"{sys.argv[1]}/{number}", jobs=1)
print(json.dumps([name for name in sys.modules if name.startswith("fedsim.")]))
"""

MAKING = {"sim", "physics", "wire", "algorithms", "protocol", "addons"}
"""The packages whose modules are loaded for what they add to a log, and for nothing else."""


@pytest.mark.slow
def test_what_any_network_loads_is_among_the_code_that_makes_a_run(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", WORLDS, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True
    )
    loaded = {name for name in json.loads(told.stdout) if name.split(".")[1] in MAKING}
    assert {"fedsim.addons.tcp.layer", "fedsim.addons.lorawan.layer"} <= loaded
    assert loaded - set(_own_code().modules) == set()


OWN = '''
from fedsim.algorithms.censored import GradientDescent
from typing import Literal
import helping

class Mine(GradientDescent):
    """A method of one's own."""

    kind: Literal["mine"] = "mine"
'''

SCRIPT = '''
"""Run a scenario after each edit, and tell whether its run was made again."""
import json, sys
from pathlib import Path
import fedsim
from fedsim.running.run import _own_code
from fedsim.scenario.registries import blocks_in
package, work = Path(fedsim.__file__).parent, Path(sys.argv[1])
assert package.parent == work / "copy"
base = json.loads(sys.argv[2])
scenarios = {
    kind: base | {"name": kind, "algorithm": {"kind": kind, "step_size": 0.1}}
    for kind in ("gd", "mine")
}

def made():
    """Return which runs are made, and not kept."""
    _own_code.cache_clear()
    again = []
    for kind, scenario in scenarios.items():
        summary = work / kind / "base/seed-1/summary.json"
        before = summary.stat().st_mtime_ns if summary.exists() else 0
        fedsim.run(scenario, out=work / kind, blocks=blocks_in([work / "owned.py"]))
        if summary.stat().st_mtime_ns != before:
            again.append(kind)
    return again

told = {"first": made(), "again": made()}
for name in sys.argv[3:]:
    path = work / name
    path.write_text(path.read_text() + "\\n# edited\\n")
    told[name] = made()
print(json.dumps(told))
'''

SCENARIO = """{
    "problem": {
        "loss": {"kind": "squared"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "iid", "clients": 2}
    },
    "stop": {"rounds": 2}
}"""

KEPT = (
    "results/report/page.py",
    "results/analysis/ranks.py",
    "cli/describe.py",
    "running/api.py",
    "results/result.py",
)
MADE = "sim/world.py", "physics/topology.py", "algorithms/censored.py", "results/record/log.py"


@pytest.mark.slow
def test_a_run_is_made_again_after_edits_of_what_it_depends_on_alone(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "copy/fedsim", ignore=shutil.ignore_patterns("*.pyc"))
    (tmp_path / "owned.py").write_text(OWN)
    (tmp_path / "helping.py").write_text("import helped\n")
    (tmp_path / "helped.py").write_text("")
    (tmp_path / "script.py").write_text(SCRIPT)
    files = [f"copy/fedsim/{name}" for name in (*KEPT, *MADE)]
    own = ["helping.py", "helped.py", "owned.py"]
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path, SCENARIO, *files, *own],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path / "copy"), str(tmp_path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    kept: dict[str, list[str]] = {f"copy/fedsim/{name}": [] for name in KEPT}
    again = {f"copy/fedsim/{name}": ["gd", "mine"] for name in MADE}
    beginning = {"first": ["gd", "mine"], "again": []}
    told = ast.literal_eval(done.stdout)
    assert told == {**beginning, **kept, **again, **{name: ["mine"] for name in own}}
