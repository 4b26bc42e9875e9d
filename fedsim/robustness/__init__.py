"""Robustness: which conclusions of a study survive the doubt about its constants.

The seams, from below: `constants` are figures with intervals, and `finding` finds those of a study;
`design` draws worlds from them; `pricing` says what each run takes in each world, by the recursion
of `timeline` (over `fleets`, `loads` and `sharing`) or, where that knows no law, by playing the log
or the run again, in the places that `places` has; `verdicts` and `deciding` say what follows;
`study` does it for a folder, and `drawing` draws worlds for any other question.
"""

from fedsim.robustness.api import draw_worlds, robust
from fedsim.robustness.result import Robustness

__all__ = ["Robustness", "draw_worlds", "robust"]
