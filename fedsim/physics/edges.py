"""Edges of a graph: written down in a scenario, or in a file."""

from collections.abc import Sequence
from pathlib import Path

from fedsim.blocks.choice import failure

FORMATS = (".graphml", ".csv")
"""What files of edges end in."""


def check_source(path: Path | None, edges: Sequence[object], neither: tuple[str, str]) -> None:
    """Make sure that edges come from one place, which is a file of a known format or the block.

    Args:
        path: the file, if any.
        edges: those written down.
        neither: the key, and what is said, where there are none of either.

    Raises:
        ValueError: there are none, or both, or the file is of no known format; as a model's
            validator raises it.
    """
    if path is None and not edges:
        key, text = neither
        raise failure((key, f"missing: {text}", None))
    if path is not None and edges:
        raise failure(("edges", "given beside path; give one of the two", None))
    if path is not None and path.suffix not in FORMATS:
        text = f'got "{path}"; give a file that ends in {" or ".join(FORMATS)}'
        raise failure(("path", text, path))
