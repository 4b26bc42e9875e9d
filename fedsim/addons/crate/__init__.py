"""An archive of a study with a description that programs read: a Research Object Crate."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.crate.writing import write_crate
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["write_crate"]
