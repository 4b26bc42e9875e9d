"""Loaded by a worker of Dask's, it hides the study's folder from it, as on another machine."""

from typing import Any

from fedsim.running import staging


def dask_setup(_: Any) -> None:
    """Hide it, once a worker begins: who merely imports this sees as before."""
    staging.Place.is_here = property(lambda _: False)  # type: ignore[assignment,method-assign]
