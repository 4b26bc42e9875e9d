"""The report: one HTML page with all results of a study, which opens without a network."""

from fedsim.results.report.page import write, write_comparison

__all__ = ["write", "write_comparison"]
