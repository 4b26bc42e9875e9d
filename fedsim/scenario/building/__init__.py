"""Construction of executable runs from scenario blocks."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.scenario.building.builder import Builder, missing_data
    from fedsim.scenario.building.job import Job
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["Builder", "Job", "missing_data"]
