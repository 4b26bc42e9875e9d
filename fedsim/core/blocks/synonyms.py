"""Usual words for keys of a scenario that have another name here, for suggestions in errors.

The glossary lists the same words, without short forms such as `lr` and `slower`, under "Words of
the field", for the site's search. A test holds the two together.
"""

from collections.abc import Mapping

SYNONYMS: Mapping[str, str] = {
    "learning_rate": "step_size",
    "lr": "step_size",
    "client_sampling": "participation",
    "client_selection": "participation",
    "partition": "split",
    "fraction": "share",
    "dropout": "availability",
    "early_stopping": "patience",
    "quantization": "compressor",
    "sparsification": "compressor",
    "checkpoint": "models",
    "straggler": "slowdown",
    "slow_device": "slowdown",
    "slower": "slowdown",
}
"""A usual word, in small letters and with underscores, and the key that has its meaning."""


def meaning(word: str) -> str:
    """Return the key that a usual word means; empty if it is none.

    >>> meaning("Learning-Rate"), meaning("censor")
    ('step_size', '')
    """
    return SYNONYMS.get(word.casefold().replace("-", "_").replace(" ", "_"), "")
