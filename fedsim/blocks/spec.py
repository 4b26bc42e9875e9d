"""The base of everything a user writes down: frozen, closed pydantic models."""

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from fedsim.blocks.signatures import LazySignature

IN_SI: Final = object()
"""The context of a validation in which quantities are numbers in SI units."""


class Spec(BaseModel):
    """A block of a scenario file, and the constructor of the object it describes.

    Frozen, because a run is a pure function of its scenario; closed, because an
    unknown key is a misspelt one; finite, because no parameter here may be NaN.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,  # most commands read blocks of few classes; building all takes 0.5 s
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Give a class a signature of its own until pydantic does, which is late."""
        super().__pydantic_init_subclass__(**kwargs)
        type.__setattr__(cls, "__signature__", LazySignature())

    @classmethod
    def in_si(cls, **values: Any) -> Self:
        """Return a block whose quantities are given as numbers in SI units, as code has them.

        A text with its unit, as a file has it, is a quantity all the same.

        Raises:
            ValidationError: a ValueError; a value is none that a file could have.
        """
        return cls.model_validate(values, context=IN_SI)
