"""Robustness: which conclusions of a study survive the uncertainty of its constants.

From below: `constants` are figures with intervals, and `uncertain_inputs` finds those of a study;
`design` samples sets of their values, called worlds; `pricing` computes the costs of each run in
each world, by the vectorised recursion of `recursion` and `fleets`, or by replaying or repeating
the run where that does not apply. `verdicts` compares variants over worlds and seeds, with the
intervals of `confidence`; `break_even` finds the values at which a verdict reverses. `api` does all
of this for a folder, and samples worlds for any other question.
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.robustness.api import draw_worlds, robust
    from fedsim.addons.robustness.result import Robustness
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["Robustness", "draw_worlds", "robust"]
