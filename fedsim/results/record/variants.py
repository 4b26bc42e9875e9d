"""Labels of variants in tables, figures and messages: their names and their methods.

The name is that of the variant in its file, of its folder, and the argument of `--against`. The
method is added in brackets if the variants differ in it and the name is another.
"""

import re
from collections.abc import Mapping

BASE = "base"
"""The name of the variant that is the scenario as written, unless it has another."""

RESERVED = (
    *("comparison", "robustness", "repriced"),
    *("study.json", "report.html", "convergence.png", "trace.json", "trace.json.gz"),
)
"""Files and folders that commands write beside those of the variants, in lower case."""

RUN = r"seed-.*"
"""Names of the folders of runs, in lower case."""


def is_reserved(name: str) -> bool:
    """Return whether a name is not allowed for a variant, since its folder has the name, too.

    >>> [is_reserved(name) for name in ("Comparison", "seed-1", "seeds", "compared")]
    [True, True, False, False]
    """
    small = name.casefold()
    return small in RESERVED or re.fullmatch(RUN, small) is not None


def labels(kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the label of each variant.

    Args:
        kinds: variant -> the kind of its method, in the order of the scenario.

    >>> labels({"base": "chb", "gd": "gd", "fast": "gd"})
    {'base': 'base (chb)', 'gd': 'gd', 'fast': 'fast (gd)'}
    >>> labels({"base": "gd", "fast": "gd"})
    {'base': 'base (gd)', 'fast': 'fast'}
    >>> labels({"fedavg": "fedavg", "fedavg-top-k": "fedavg", "slow": "chb"})
    {'fedavg': 'fedavg', 'fedavg-top-k': 'fedavg-top-k', 'slow': 'slow (chb)'}
    """
    several = len(set(kinds.values())) > 1
    return {name: _label(name, kind, several=several) for name, kind in kinds.items()}


def _label(name: str, kind: str, *, several: bool) -> str:
    """Return a label; a name may be preceded by that of a folder, as in "lte/base".

    A name that begins with the kind of its method implies it: "chb-fast" needs no "(chb)".
    """
    own_name = name.rpartition("/")[2]
    implied = f"{own_name}-".startswith(f"{kind}-") or not (several or own_name == BASE)
    return name if implied else f"{name} ({kind})"
