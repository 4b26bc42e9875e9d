"""Residual networks for small images, with group normalisation."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def _convolution(inside: int, outside: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut.

    Where the image becomes smaller and deeper, the shortcut takes every other pixel, and zeros in
    the new channels (option A of He et al.): it has no parameters.

    Args:
        inside, outside: channels.
        stride: of the first convolution.
        groups: of channels that are normalised together.
    """

    def __init__(self, inside: int, outside: int, stride: int, groups: int) -> None:
        super().__init__()
        self.first = _convolution(inside, outside, stride)
        self.first_norm = nn.GroupNorm(groups, outside)
        self.second = _convolution(outside, outside)
        self.second_norm = nn.GroupNorm(groups, outside)
        self._stride, self._added = stride, outside - inside

    def forward(self, images: Tensor) -> Tensor:
        """Return images, shape (b, outside, h/stride, w/stride)."""
        found = functional.relu(self.first_norm(self.first(images)))
        found = self.second_norm(self.second(found))
        kept = images[:, :, :: self._stride, :: self._stride]
        half = self._added // 2
        kept = functional.pad(kept, (0, 0, 0, 0, half, self._added - half))
        return functional.relu(found + kept)


class Residual(nn.Module):
    """A convolution, stages of residual blocks, the mean of each channel, a dense layer.

    Args:
        channels: of an image.
        widths: channels of each stage; from the second on, the first block halves the image.
        blocks: of each stage.
        groups: of channels that are normalised together.
        outputs: classes.
    """

    def __init__(
        self, channels: int, widths: Sequence[int], blocks: int, groups: int, outputs: int
    ) -> None:
        super().__init__()
        self.first = _convolution(channels, widths[0])
        self.norm = nn.GroupNorm(groups, widths[0])
        stages: list[nn.Module] = []
        inside = widths[0]
        for stage, outside in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                stages.append(ResidualBlock(inside, outside, stride, groups))
                inside = outside
        self.blocks = nn.Sequential(*stages)
        self.last = nn.Linear(inside, outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al., ICCV 2015
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """Return outputs of images (b, channels, h, w), shape (b, outputs)."""
        found = self.blocks(functional.relu(self.norm(self.first(images))))
        outputs: Tensor = self.last(torch.mean(found, dim=(2, 3)))
        return outputs
