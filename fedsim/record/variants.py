"""Labels of variants in tables, figures and messages: their names and their methods.

The name is that of the variant in its file and of its folder, and what `--against` takes. The
method stands beside it in brackets, where the name does not say it and variants differ in it.
"""

import re
from collections.abc import Mapping

BASE = "base"
"""The variant that is the scenario as written, where that has no other name."""

RESERVED = (
    *("comparison", "robustness", "repriced"),
    *("study.json", "report.html", "convergence.png", "trace.json", "trace.json.gz"),
)
"""What commands write beside the folders of the variants, in small letters."""

RUN = r"seed-.*"
"""What the folders of runs are called, in small letters."""


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved, since the variant's folder would be taken for another.

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
    """
    several = len(set(kinds.values())) > 1
    return {name: _label(name, kind, several=several) for name, kind in kinds.items()}


def _label(name: str, kind: str, *, several: bool) -> str:
    """Return a label; a name may have that of a folder in front, as in "lte/base"."""
    own = name.rpartition("/")[2]
    said = own == kind or not (several or own == BASE)
    return name if said else f"{name} ({kind})"
