"""In which order the keys of a block are listed."""

from inspect import get_annotations
from typing import Any

from fedsim.blocks.spec import Spec


class KindFirst(Spec):
    """A block whose keys are listed as people read them: the kind, its own, what it inherits."""

    @classmethod
    def __pydantic_init_subclass__(cls, **rest: Any) -> None:
        """Put the fields of a subclass in that order."""
        declared = [name for each in cls.__mro__ for name in get_annotations(each)]
        fields = cls.__pydantic_fields__
        named = dict.fromkeys(("kind", "topology", *declared))
        cls.__pydantic_fields__ = {name: fields[name] for name in named if name in fields}
        cls.model_rebuild(force=True)
