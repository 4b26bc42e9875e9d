"""The base of everything a user writes down: frozen, closed pydantic models."""

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A block of a scenario file, and the constructor of the object it describes.

    Frozen, because a run is a pure function of its scenario; closed, because an
    unknown key is a misspelt one; finite, because no parameter here may be NaN.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )
