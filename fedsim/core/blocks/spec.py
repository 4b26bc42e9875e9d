"""Base class of blocks: frozen, closed pydantic models."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from inspect import Parameter, Signature, get_annotations
from pathlib import Path
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from fedsim.core.blocks.nature import Nature
from fedsim.core.errors import FrozenError

# Defaults of fields, in the notation of a file.


def as_written(default: object, description: str) -> Any:
    """Return a field whose default is in the notation of a file. It is validated like input."""
    return Field(default=default, description=description)


# Shares: 0.3 and "30 %" are the same.

NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
"""A number in a text, without its sign."""

LONGEST = 80
"""The largest number of characters of a text with a number."""

_PER_CENT = re.compile(rf"\s*\+?({NUMBER})\s*%\s*")


def per_cent(value: object) -> object:
    """Return a text in per cent as a number, rounded once; return other values unchanged.

    >>> per_cent("30 %"), per_cent(0.3), per_cent("many")
    (0.3, 0.3, 'many')
    """
    short = isinstance(value, str) and len(value) <= LONGEST
    match = _PER_CENT.fullmatch(str(value)) if short else None
    return float(Decimal(match[1]).scaleb(-2)) if match else value


@dataclass(frozen=True)
class PerCent:
    """An annotation for pydantic: a number that may also be written in per cent."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate the number after its conversion."""
        return core_schema.no_info_before_validator_function(per_cent, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe both forms, for editors."""
        return either_form(handler(schema))


def either_form(number: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a number that may also be written in per cent.

    >>> len(either_form({"type": "number"})["anyOf"])
    2
    """
    text = {"type": "string", "pattern": rf"^{_PER_CENT.pattern}$", "examples": ["30 %"]}
    parts = number["anyOf"] if set(number) == {"anyOf"} else [number]
    return {"anyOf": [*parts, text]}


def _take_per_cent(fields: Mapping[str, FieldInfo]) -> None:
    """Make fields that are shares accept per cent, before their validators are built."""
    for field in fields.values():
        if _is_share(field) and PerCent() not in field.metadata:
            field.metadata = [*field.metadata, PerCent()]


def _is_share(field: FieldInfo) -> bool:
    """Return whether a number is a share, which means that its bounds are 0 and 1."""
    kinds = {field.annotation, *get_args(field.annotation)}
    low = {getattr(bound, "ge", getattr(bound, "gt", None)) for bound in field.metadata}
    high = {getattr(bound, "le", getattr(bound, "lt", None)) for bound in field.metadata}
    return float in kinds and 0 in low and 1 in high


# The signature of a block's constructor, for completion in notebooks and editors.


class LazySignature:
    """The attribute `__signature__` of a class whose validator is built on first use.

    Before it is built, pydantic's own signature is only `**data`, although all fields are known.
    """

    def __get__(self, instance: object, owner: type[BaseModel]) -> Signature:
        if instance is not None:
            raise AttributeError("__signature__")  # else `inspect` treats an instance as a function
        fields = owner.model_fields
        # `get_type_hints` resolves names such as "Path" that pydantic keeps as text until it
        # builds.
        bare = SimpleNamespace(__annotations__={name: fields[name].annotation for name in fields})
        types = get_type_hints(bare)  # without pydantic's metadata beside the type
        return Signature([_parameter(name, fields[name], types[name]) for name in fields])


def _parameter(name: str, field: FieldInfo, annotation: object) -> Parameter:
    default = Parameter.empty if field.is_required() else field.get_default()
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


IN_SI: Final = object()
"""The context of a validation in which quantities are numbers in SI units."""


class Spec(BaseModel):
    """A block of a scenario file, and the constructor of the object that the block describes.

    It is frozen, because a run is a pure function of its scenario. It is closed: an unknown key is
    an error, since it is most likely misspelt. It is finite: NaN and infinity are refused. A number
    bounded by 0 and 1 may be written in per cent.
    """

    also_called: ClassVar[tuple[str, ...]] = ()
    """Other names under which users may look for this kind of block; errors suggest the kind."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # most commands read blocks of few classes; building all takes 0.5 s
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Make shares accept per cent, and set a signature, which pydantic later replaces."""
        super().__pydantic_init_subclass__(**kwargs)
        _take_per_cent(cls.__pydantic_fields__)
        type.__setattr__(cls, "__signature__", LazySignature())

    if not TYPE_CHECKING:  # a type checker knows that pydantic refuses it

        def __setattr__(self, name: str, value: object) -> None:
            try:
                super().__setattr__(name, value)
            except ValidationError:
                raise self._frozen(name) from None

        def __delattr__(self, name: str) -> None:
            try:
                super().__delattr__(name)
            except ValidationError:
                raise self._frozen(name) from None

    def _frozen(self, name: str) -> FrozenError:
        return FrozenError(
            f"{type(self).__name__}.{name} cannot be changed, since a run depends on its scenario"
            ' alone: set values when it is loaded, fedsim.load(file, overrides=["stop.rounds=3"]);'
            " the state of a method belongs into local variables"
        )

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the block's natures, each with the key in the block that causes it.

        They determine which ways of simulating a run with the block are possible; see
        `fedsim.core.blocks.nature`.
        """
        return iter(())

    @classmethod
    def in_si(cls, **values: Any) -> Self:
        """Return a block whose quantities are given as numbers in SI units.

        Texts with a unit, as in a file, are accepted too.

        Raises:
            ValidationError: a ValueError; a value is invalid.
        """
        return cls.model_validate(values, context=IN_SI)


# The order in which the keys of a block are listed.


class KindFirst(Spec):
    """A block whose keys are listed in this order: the kind, its own keys, inherited keys."""

    @classmethod
    def __pydantic_init_subclass__(cls, **rest: Any) -> None:
        super().__pydantic_init_subclass__(**rest)
        # In this order, a class's own keys come before inherited ones.
        declared = [name for base in cls.__mro__ for name in get_annotations(base)]
        fields = cls.__pydantic_fields__
        named = dict.fromkeys(("kind", "topology", *declared))
        cls.__pydantic_fields__ = {name: fields[name] for name in named if name in fields}


# Fields whose input and value have different types: the input is "5 Mbit/s", the value 5e6.
# Pydantic converts the input, but a type checker would accept only the type of the value. For the
# type checker such a field is therefore a descriptor, whose setter declares the type of the input.

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

        def __class_getitem__(cls, forms: tuple[Any, Any]) -> Any:
            return forms[0]


AnyPath = Given[Path, Path | str]
"""A field that takes a path."""

FILE_OR_ADDRESS = "a file or an address"
"""The annotation of a text that is a path unless it has "://"."""
