"""Live runs: the server and the clients of a scenario over TCP, in separate processes."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.live.api import join, run_live, serve
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["join", "run_live", "serve"]
