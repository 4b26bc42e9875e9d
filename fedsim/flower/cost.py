"""What it costs a client to train: declared, so that a log does not depend on who runs it."""

from typing import Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import Seconds
from fedsim.blocks.spec import Spec
from fedsim.physics.devices import AnyDevice


class Cost(Spec):
    """What one `fit` (or `train`) of a client costs, by which the client's device takes its time.

    Given in operations; or in the seconds that it takes on a device of a known speed, as somebody
    has measured them (`fedsim.flower.seconds_of` does), from which the operations follow.
    """

    operations: float | None = Field(
        default=None, ge=0, description="floating-point operations of a fit"
    )
    seconds: Seconds | None = Field(default=None, description="instead, how long a fit takes")
    on: AnyDevice | None = Field(default=None, description="the device on which it takes so long")
    per: Literal["fit", "sample"] = Field(
        default="fit", description="whether that is for a fit, or for each sample of the client's"
    )
    evaluation: float = Field(
        default=0.3, ge=0, description="what an evaluation costs, as a share of a fit"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.operations is None) == (self.seconds is None):
            text = "give either operations, or seconds with on, the device that takes so long"
            raise failure(("", text, None))
        if (self.seconds is None) != (self.on is None):
            text = "seconds and on belong together: so long on a device such as pi-4"
            raise failure(("seconds" if self.on is None else "on", text, self.seconds))
        if self.on is not None and self.on.constant is None:
            text = f"{self.on.kind} has no one speed, so that operations do not follow from seconds"
            raise failure(("on", text, self.on.kind))
        return self

    def operations_of(self, samples: int) -> float:
        """Return the floating-point operations of a fit of a client with so many samples."""
        speed = None if self.on is None else self.on.constant
        one = self.operations if speed is None else (self.seconds or 0.0) * speed
        return (one or 0.0) * (samples if self.per == "sample" else 1)
