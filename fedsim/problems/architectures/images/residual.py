"""Residual networks."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from fedsim.problems.architectures.images.base import ImageNetwork

if TYPE_CHECKING:
    from torch import nn

STAGES = 3


class ResidualNetwork(ImageNetwork):
    """The residual network for CIFAR, with group normalisation in the place of batch's.

    3 stages of n residual blocks of two convolutions each; with the convolution before them and
    the dense layer behind, 6 n + 2 layers. Batch normalisation has statistics that clients do not
    share, and that fail where their labels differ; groups have none.
    """

    source: ClassVar[str] = (
        "He et al., CVPR 2016, section 4.2; group norm: Hsieh et al., ICML 2020, section 5"
    )

    kind: Literal["resnet"] = "resnet"
    depth: int = Field(default=20, ge=8, description="6 n + 2 layers: 8, 14, 20, 32, ...")
    width: int = Field(
        default=16, ge=1, description="channels of the first stage; the others have 2 and 4 times"
    )
    groups: int = Field(
        default=2, ge=1, description="groups of channels that are normalised; divides the width"
    )

    @field_validator("depth")
    @classmethod
    def _whole_blocks(cls, depth: int) -> int:
        if depth % (2 * STAGES) != 2:
            raise ValueError(f"a depth is 6 n + 2, such as 8, 14, 20 or 32, not {depth}")
        return depth

    @field_validator("groups")
    @classmethod
    def _whole_groups(cls, groups: int, known: ValidationInfo) -> int:
        width = known.data.get("width", groups)
        if width % groups:
            raise ValueError(f"{width} channels are no whole number of {groups} groups")
        return groups

    def module(self, features: int, outputs: int) -> "nn.Module":
        """Return the network; see `Architecture.module`."""
        from fedsim.problems.networks.residual import Residual  # noqa: PLC0415 - loads PyTorch

        blocks = (self.depth - 2) // (2 * STAGES)
        channels = self.shape(features)[0]
        return Residual(
            channels,
            [self.width * 2**stage for stage in range(STAGES)],
            blocks,
            self.groups,
            outputs,
        )
