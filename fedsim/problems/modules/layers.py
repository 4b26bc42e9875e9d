"""PyTorch modules of architectures that are not just sequences of PyTorch's own layers.

This package loads PyTorch; nothing outside does at import.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

# Transformers for rows of tokens.

SPREAD = 0.02
"""The standard deviation of initial embeddings, as in GPT-2."""


class Attention(nn.Module):
    """Causal attention with several heads.

    Args:
        width: the size of a token's vector.
        heads: the number of heads, which divides the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.asked = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self._heads = heads

    def forward(self, tokens: Tensor) -> Tensor:
        """Return causal attention over tokens (b, t, width), in the same shape."""
        b, t, width = tokens.shape
        split = self.asked(tokens).view(b, t, 3, self._heads, width // self._heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        outputs: Tensor = self.out(mixed.transpose(1, 2).reshape(b, t, width))
        return outputs


class DecoderLayer(nn.Module):
    """Attention and two dense layers, both with a normalisation in front and a shortcut.

    Args:
        width: see `Attention`.
        heads: see `Attention`.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.dense_norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return tokens of the same shape, (b, t, width)."""
        tokens = tokens + self.attention(self.attention_norm(tokens))
        found: Tensor = tokens + self.dense(self.dense_norm(tokens))
        return found


class Decoder(nn.Module):
    """A transformer that predicts the next token of a row.

    Args:
        known: the number of distinct tokens.
        context: the number of tokens in a row.
        width: see `Attention`.
        layers: the number of layers.
        heads: see `Attention`.
        outputs: the number of classes.
    """

    def __init__(
        self, known: int, context: int, width: int, layers: int, heads: int, outputs: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(known, width)
        self.places = nn.Parameter(SPREAD * torch.randn(context, width))
        self.layers = nn.Sequential(*(DecoderLayer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)
        nn.init.normal_(self.embedding.weight, std=SPREAD)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs for tokens (b, context), shape (b, outputs)."""
        hidden = self.layers(self.embedding(tokens) + self.places)
        # The label is the token after the row, so only the last position predicts.
        outputs: Tensor = self.last(self.norm(hidden[:, -1]))
        return outputs


# Recurrent networks for rows of tokens.


class Recurrent(nn.Module):
    """Embedded tokens, layers of long short-term memory, and a dense layer on the last state.

    Args:
        known: the number of distinct tokens.
        width: the size of a token's embedding.
        hidden: the units of a layer.
        layers: the number of layers.
        outputs: the number of classes.
    """

    def __init__(self, known: int, width: int, hidden: int, layers: int, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(known, width)
        self.memory = nn.LSTM(width, hidden, layers, batch_first=True)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the outputs for tokens (b, context), shape (b, outputs)."""
        outputs: Tensor = self.last(self._states(self.embedding(tokens))[:, -1])
        return outputs

    def _states(self, embedded: Tensor) -> Tensor:
        """Return the states of the last layer, shape (b, context, hidden).

        On a CPU, autocast selects a narrow LSTM of oneDNN without checking that the processor has
        the instructions for it, and fails if it does not. For inputs that are already narrow,
        PyTorch does check. So they are cast here, as autocast would cast them.
        """
        if embedded.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            kind = torch.get_autocast_dtype("cpu")
            weights = {name: each.to(kind) for name, each in self.memory.named_parameters()}
            with torch.autocast("cpu", enabled=False):
                states: Tensor = functional_call(self.memory, weights, (embedded.to(kind),))[0]
        else:
            states = self.memory(embedded)[0]
        return states


# Residual networks for small images, with group normalisation.


def _convolution(inside: int, outside: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut.

    Where the image becomes smaller and deeper, the shortcut takes every other pixel, and zeros in
    the new channels (option A of He et al.). So it has no parameters.

    Args:
        inside: the input channels.
        outside: the output channels.
        stride: the stride of the first convolution.
        groups: the number of groups of channels for normalisation.
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
        hidden = functional.relu(self.first_norm(self.first(images)))
        hidden = self.second_norm(self.second(hidden))
        kept = images[:, :, :: self._stride, :: self._stride]
        half = self._added // 2
        kept = functional.pad(kept, (0, 0, 0, 0, half, self._added - half))
        return functional.relu(hidden + kept)


class Residual(nn.Module):
    """A convolution, stages of residual blocks, the mean of each channel, and a dense layer.

    Args:
        channels: the number of channels of an image.
        widths: the channels of each stage; from the second one on, its first block halves the
            image.
        blocks: the number of blocks per stage.
        groups: the number of groups of channels for normalisation.
        outputs: the number of classes.
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
        """Return the outputs for images (b, channels, h, w), shape (b, outputs)."""
        hidden = self.blocks(functional.relu(self.norm(self.first(images))))
        outputs: Tensor = self.last(torch.mean(hidden, dim=(2, 3)))
        return outputs
