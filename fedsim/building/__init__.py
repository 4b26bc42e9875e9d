"""Construction of executable runs from scenario blocks."""

from typing import TYPE_CHECKING

from fedsim.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.building.builder import Builder, missing_data
    from fedsim.building.job import Job
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["Builder", "Job", "missing_data"]
