"""Reference of `fedsim.flower`: its functions, and the keys of its blocks."""

from making.blocks import Reference, anchored, prose
from making.descriptions import function

from fedsim import flower
from fedsim.core.blocks.spec import Spec

_BLOCKS: dict[str, type[Spec]] = {"app": flower.App, "cost": flower.Cost, "flower": flower.Flower}
"""The classes of blocks by subject."""


def flower_reference() -> str:
    """Return the functions, and then the blocks with their keys."""
    parts: list[str] = []
    for name in ("app", "method", "seconds_of"):
        parts += function(f"fedsim.flower.{name}", getattr(flower, name), 3)
    for name, model in _BLOCKS.items():
        document = model.model_json_schema()
        reference = Reference(document.get("$defs", {}))
        title = f"The block `fedsim.flower.{model.__name__}`"
        parts += [
            anchored(3, title, f"block-{name}"),
            prose((model.__doc__ or "").split("\n\n")[0]),
        ]
        parts.append(reference.keys(document))
    return "\n\n".join(parts)
