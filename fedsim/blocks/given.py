"""Fields that are given in one form and read in another: "5 Mbit/s" is given, and 5e6 is read.

Pydantic reads what is given; a type checker has to be told both forms, or it would take the second
one alone. To it such a field is a descriptor, whose setter says what a constructor takes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Read_co = TypeVar("Read_co", covariant=True)
Written_contra = TypeVar("Written_contra", contravariant=True)

Keys = Mapping[str, Any]
"""A block, as a mapping of its keys."""

Block = str | Mapping[str, Any]
"""A block of one of several kinds: the name of its kind alone, or its keys."""

if TYPE_CHECKING:

    class Given(Generic[Read_co, Written_contra]):
        """`Given[what is read, what is given]`, for type checkers."""

        def __get__(self, instance: object, owner: object = None) -> Read_co: ...
        def __set__(self, instance: object, value: Written_contra) -> None: ...

else:

    class Given:
        """`Given[what is read, what is given]` is the first of them, with its annotations."""

        def __class_getitem__(cls, forms: tuple[Any, Any]) -> Any:  # noqa: ANN401 - a form
            """Return the annotation that pydantic reads by."""
            return forms[0]


AnyPath = Given[Path, Path | str]
"""A field that takes a path."""
