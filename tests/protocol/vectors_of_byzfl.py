"""Make `byzfl.json`: what the library ByzFL returns for drawn vectors.

It is run with ByzFL 0.0.11 in an environment of its own (`pip install --no-deps byzfl==0.0.11`,
beside NumPy, SciPy and PyTorch), with the path of `byzfl.json` as its argument.
"""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

CASES = 200


def cases() -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield f and n >= 4f + 3 vectors, of which the first f are far from the others."""
    rng = np.random.default_rng(1)
    for _ in range(CASES):
        f = int(rng.integers(0, 4))
        n = int(rng.integers(4 * f + 3, 4 * f + 8))
        vectors = rng.standard_normal((n, int(rng.integers(1, 5))))
        vectors[:f] += 10 * rng.standard_normal((f, vectors.shape[1]))
        yield f, vectors


def main(out: Path) -> None:
    """Write the results of all rules for all cases."""
    found = find_spec("byzfl")
    assert found is not None, "byzfl is not installed"
    # Its top module imports torchvision, which none of the rules needs.
    package = ModuleType("byzfl")
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules["byzfl"] = package
    rules = import_module("byzfl.aggregators")

    results = []
    for f, vectors in cases():
        made = {
            "median": rules.Median(),
            "trimmed-mean": rules.TrMean(f),
            "geometric-median": rules.GeometricMedian(nu=0.1, T=3),
            "krum": rules.Krum(f),
            "multi-krum": rules.MultiKrum(f),
            "centred-clipping": rules.CenteredClipping(L=2, tau=0.5),
            "nnm": lambda vectors, f=f: rules.Median()(rules.NNM(f)(vectors)),
        }
        if len(vectors) < 13:
            made["mda"] = rules.MDA(f)
        results.append({kind: np.asarray(rule(vectors)).tolist() for kind, rule in made.items()})
    out.write_text(json.dumps(results, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
