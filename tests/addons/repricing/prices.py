"""A run, the same run made again under a changed scenario, and the first one priced again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fedsim
from fedsim.core.blocks.spec import Spec
from fedsim.results.record.folder import STUDY
from fedsim.results.record.manifest import MANIFEST
from tests.methods import scenario
from tests.runs import files

FLEET: list[dict[str, Any]] = [
    {"count": 3, "device": "phone-mid", "radio": "lte"},
    {"count": 2, "device": "pi-4", "radio": "wifi"},
]


def small(kind: str = "chb", rounds: int = 5, **changes: Any) -> dict[str, Any]:
    """Return a scenario of a method and five clients, of which every model is kept.

    So the models are known, too, wherever the run ends that it is priced again as.
    """
    own = {"fleet": FLEET, "stop": {"rounds": rounds}, "models": {"every": 1}}
    return {**scenario(kind), **own, **changes}


def unlike(
    source: dict[str, Any],
    overrides: Sequence[str],
    folder: Path,
    blocks: Sequence[type[Spec]] = (),
) -> list[str]:
    """Return which files differ between a fresh run of the changed scenario and a repricing."""
    before, fresh, priced = folder / "before", folder / "fresh", folder / "priced"
    fedsim.run(source, out=before, blocks=blocks)
    fedsim.run(source, out=fresh, overrides=overrides, blocks=blocks)
    fedsim.reprice(before, overrides, priced, blocks=blocks)
    assert files(before) != files(fresh)
    return differing(fresh, priced)


def differing(fresh: Path, priced: Path) -> list[str]:
    """Return which files differ, but for what a manifest says of its origin."""
    made, again = contents(fresh), contents(priced)
    assert made.keys() == again.keys()
    return [name for name, content in made.items() if again[name] != content]


def contents(folder: Path) -> dict[str, object]:
    """Return every file of the runs in a folder, manifests without origin and seal.

    The folder itself says of its runs that they were priced, and from which file they are.
    """
    runs = {name: content for name, content in files(folder).items() if name != STUDY}
    return {name: _read(name, content) for name, content in runs.items()}


def _read(name: str, content: bytes) -> object:
    if not name.endswith((MANIFEST, STUDY)):
        return content
    made: dict[str, Any] = json.loads(content)
    if name == STUDY:  # what is priced again says so, and of which runs it is
        return made["variants"]
    return {key: value for key, value in made.items() if key not in {"repriced_from", "seal"}}
