"""A small scenario of five clients, for tests of whole runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsim.results.record.earlier import EARLIER, TRASH
from fedsim.results.record.folder import HISTORY
from fedsim.results.record.outputs import OUTPUTS

SMALL: Mapping[str, Any] = {
    "name": "small",
    "problem": {
        "loss": {"kind": "squared", "scale": "sum", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "chb", "step_size": "1/L"},
    "wire": {"values": "float64"},
    "fleet": [
        {"count": 3, "device": "phone-mid", "radio": "lte"},
        {"count": 2, "device": "pi-4", "radio": "wifi"},
    ],
    "stop": {"rounds": 30},
}

PEERS: Mapping[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "scale": "mean", "l2": 0.1, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "d-psgd", "step_size": 0.3},
    "stop": {"rounds": 2},
}
"""A method of peers, for tests that give its graph."""


def small(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


_ASIDE = {EARLIER, TRASH, HISTORY, OUTPUTS}


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder of runs, without journals and runs that were replaced."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in _ASIDE
    }
