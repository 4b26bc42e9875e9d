"""Construction of executable runs from scenario blocks."""

from fedsim.building.builder import Builder, missing_data
from fedsim.building.job import Job

__all__ = ["Builder", "Job", "missing_data"]
