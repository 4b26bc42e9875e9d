"""Files in place of a user's: of their form, and small, for rows of papers that need some.

A row names one with `stand_in`; it writes its files below a folder, where FEDSIM_DATA then points.
"""

from collections.abc import Callable
from pathlib import Path

STAND_INS: dict[str, Callable[[Path], None]] = {}
"""By name."""
