"""The explorer: an HTML page with sliders that re-prices a study in a browser.

Its modules:

- `histories` reduces each run to what its costs depend on (the clients of each exchange, bits
  both ways, work) as typed arrays, and packs those of all runs into one compressed block;
- `sliders` lists the constants that can be changed, each with its interval and the keys of the
  scenario that hold it, so that a position of the page is also an override of `fedsim reprice`;
- `page` writes one HTML file of both, the figures of all fleets and four scripts: `history.js`
  unpacks the block, `fleet.js` computes the figures of a client from the constants, `recursion.js`
  prices a run from both, and `explorer.js` draws what they find. The first three mirror
  `fedsim.addons.repricing.history`, `fedsim.addons.robustness.fleets` and
  `fedsim.addons.robustness.recursion`;
- `api` finds the runs, refuses those that the recursion cannot price, and keeps to a size.
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.explorer.api import explore
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["explore"]
