"""The hashes of the logs of every scenario in the repository, in a short form, to be held against.

    python analysis/log_hashes.py record hashes.json
    python analysis/log_hashes.py compare hashes.json

A change of structure leaves every log's bytes as they were; one that does not names its reason
among the changes. Every variant runs for a few rounds under one seed. What needs data that is
not on this machine is named and left out.
"""

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path

import fedsim
from fedsim.results.record.folder import read_json
from fedsim.results.record.manifest import MANIFEST
from fedsim.scenario.building import missing_data

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 4
LEFT_OUT = "left out"


def hashes(file: Path, rounds: int = ROUNDS) -> dict[str, str]:
    """Return the hash of the log of each run of a scenario, by variant and seed.

    Args:
        file: the scenario.
        rounds: how many of each run.
    """
    overrides = [f"stop.rounds={rounds}", "seeds=1", "problem.optimum=unknown", "stop.gap=null"]
    if missing := missing_data(fedsim.load(file, overrides=overrides)):
        return {LEFT_OUT: f"not on this machine: {', '.join(missing)}"}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", fedsim.TheoryWarning)
        result = fedsim.run(file, out=folder, overrides=overrides)
        return {
            str(run.relative_to(folder)): read_json(run / MANIFEST)["events"]["sha256"]
            for run in result.runs
        }


def collected() -> dict[str, dict[str, str]]:
    """Return the hashes of all scenarios, by their file."""
    found = {}
    for file in sorted((ROOT / "scenarios").rglob("*.yaml")):
        name = str(file.relative_to(ROOT))
        try:
            found[name] = hashes(file)
        except fedsim.FedsimError as error:
            found[name] = {LEFT_OUT: str(error)}
        print(f"{name}: {len(found[name])}", file=sys.stderr)
    return found


def differences(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for every run whose log is not what it was; why one is left out may change."""
    return [
        f"{name} {run}: {before.get(name, {}).get(run)} before, {after.get(name, {}).get(run)} now"
        for name in sorted(before | after)
        for run in sorted(before.get(name, {}) | after.get(name, {}))
        if before.get(name, {}).get(run) != after.get(name, {}).get(run)
        and not (run == LEFT_OUT and run in before.get(name, {}) and run in after.get(name, {}))
    ]


def main() -> None:
    """Record the hashes, or list those that differ from the recorded ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    if given.action == "record":
        given.file.write_text(json.dumps(collected(), indent=1) + "\n", encoding="utf-8")
        return
    before = json.loads(given.file.read_text(encoding="utf-8"))
    lines = differences(before, collected())
    print("\n".join(lines) or "every log is what it was")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
