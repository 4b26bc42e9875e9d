"""The report: one HTML page that tells a study, and opens without a network."""

from fedsim.report.page import write, write_comparison

__all__ = ["write", "write_comparison"]
