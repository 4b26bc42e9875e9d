"""Transformers for rows of tokens."""

import torch
from torch import Tensor, nn
from torch.nn import functional

SPREAD = 0.02
"""Of embeddings at the start, as GPT-2 has it."""


class Attention(nn.Module):
    """Causal attention of several heads.

    Args:
        width: numbers of a token.
        heads: they divide the width.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.asked = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self._heads = heads

    def forward(self, tokens: Tensor) -> Tensor:
        """Return what tokens (b, t, width) find in those up to themselves, of the same shape."""
        b, t, width = tokens.shape
        split = self.asked(tokens).view(b, t, 3, self._heads, width // self._heads)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        outputs: Tensor = self.out(found.transpose(1, 2).reshape(b, t, width))
        return outputs


class DecoderLayer(nn.Module):
    """Attention and two dense layers, each behind a normalisation and beside a shortcut.

    Args:
        width, heads: see `Attention`.
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
    """A transformer that says what comes after a row of tokens.

    Args:
        known: how many tokens there are.
        context: tokens of a row.
        width, heads: see `Attention`.
        layers: how many.
        outputs: classes.
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
        """Return outputs of tokens (b, context), shape (b, outputs)."""
        found = self.layers(self.embedding(tokens) + self.places)
        outputs: Tensor = self.last(self.norm(found[:, -1]))
        return outputs
