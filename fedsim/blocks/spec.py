"""Base class of blocks: frozen, closed pydantic models."""

from collections.abc import Mapping
from inspect import Parameter, Signature, get_annotations
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Self, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

# Defaults of fields, in the notation of a file.


def as_written(default: object, description: str) -> Any:  # noqa: ANN401 - like pydantic's Field
    """Return a field whose default is in the notation of a file, and validated like input."""
    return Field(default=default, description=description)


# The signature of a block's constructor, for completion in notebooks and editors.


class LazySignature:
    """The attribute `__signature__` of a class whose validator is built on first use.

    Until then pydantic's own signature is `**data`, although all fields are known.
    """

    def __get__(self, instance: object, owner: type[BaseModel]) -> Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # else `inspect` treats an instance as a function
        fields = owner.model_fields
        bare = SimpleNamespace(__annotations__={name: fields[name].annotation for name in fields})
        types = get_type_hints(bare)  # without pydantic's metadata beside the type
        return Signature([_parameter(name, fields[name], types[name]) for name in fields])


def _parameter(name: str, field: FieldInfo, annotation: object) -> Parameter:
    default = Parameter.empty if field.is_required() else field.get_default()
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


IN_SI: Final = object()
"""The context of a validation in which quantities are numbers in SI units."""


class Spec(BaseModel):
    """A block of a scenario file, and the constructor of the object it describes.

    Frozen, because a run is a pure function of its scenario; closed, because an
    unknown key is a misspelt one; finite, because no parameter here may be NaN.
    """

    also_called: ClassVar[tuple[str, ...]] = ()
    """Names under which users may look for this kind of block; errors lead from them to it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # most commands read blocks of few classes; building all takes 0.5 s
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Set a provisional signature, which pydantic replaces when it builds the validator."""
        super().__pydantic_init_subclass__(**kwargs)
        type.__setattr__(cls, "__signature__", LazySignature())

    @classmethod
    def in_si(cls, **values: Any) -> Self:
        """Return a block whose quantities are given as numbers in SI units.

        Texts with a unit, as in a file, are accepted, too.

        Raises:
            ValidationError: a ValueError; a value is invalid.
        """
        return cls.model_validate(values, context=IN_SI)


# The order in which the keys of a block are listed.


class KindFirst(Spec):
    """A block whose keys are listed in this order: the kind, its own, inherited ones."""

    @classmethod
    def __pydantic_init_subclass__(cls, **rest: Any) -> None:
        """Put the fields of a subclass in that order."""
        declared = [name for each in cls.__mro__ for name in get_annotations(each)]
        fields = cls.__pydantic_fields__
        named = dict.fromkeys(("kind", "topology", *declared))
        cls.__pydantic_fields__ = {name: fields[name] for name in named if name in fields}
        cls.model_rebuild(force=True)


# Fields that are given in one form and read in another: "5 Mbit/s" is given, and 5e6 is read.
#
# Pydantic parses the input, but a type checker would accept only the form that is read. For the
# type checker such a field is therefore a descriptor, whose setter declares the type that is
# accepted.

Read_co = TypeVar("Read_co", covariant=True)
Written_contra = TypeVar("Written_contra", contravariant=True)

Keys = Mapping[str, Any]
"""A block, as a mapping of its keys."""

Block = str | Mapping[str, Any]
"""A block of one of several kinds: the name of its kind alone, or its keys."""

if TYPE_CHECKING:

    class Given(Generic[Read_co, Written_contra]):
        """`Given[type read, type given]`, for type checkers."""

        def __get__(self, instance: object, owner: object = None) -> Read_co: ...
        def __set__(self, instance: object, value: Written_contra) -> None: ...

else:

    class Given:
        """`Given[type read, type given]` is the first type, with its annotations."""

        def __class_getitem__(cls, forms: tuple[Any, Any]) -> Any:  # noqa: ANN401 - a form
            """Return the annotation for pydantic."""
            return forms[0]


AnyPath = Given[Path, Path | str]
"""A field that takes a path."""
