"""The folder of a paper: figures, tables, a methods paragraph and references of one study."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.paper.folder import write_paper
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["write_paper"]
