"""Loaded by a worker of Dask's, it hides the study's folder from it, as on another machine."""

from fedsim.running import places

places.Place.is_here = property(lambda _: False)  # type: ignore[assignment,method-assign]
