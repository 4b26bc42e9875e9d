"""Is a block of any kind one that can be written, sent, and asked what it is?

from fedsim.addons.conformance.any_block import check_any
print(check_any(Markov.in_si(on=10, off=5)))
"""

import pickle
from collections.abc import Iterator
from dataclasses import asdict

import pandas as pd

from fedsim.addons.conformance.findings import Promises, table
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.plugins import dump, specs_in
from fedsim.core.blocks.spec import IN_SI, Spec


def check_any(block: Spec) -> pd.DataFrame:
    """Check what holds for a block of whatever kind.

    Args:
        block: with its parameters.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import Patience
        >>> check_any(Patience(rounds=3))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(block), _promises(block))


def _promises(block: Spec) -> Promises:
    if not any(isinstance(each, Holding) for each in specs_in(block)):
        yield "what is written of it reads back", _reads_back(block)
    yield "what it declares is said in words", _natures(block)
    yield "it can be sent to another process and back", pickles(block)


def _reads_back(block: Spec) -> Iterator[str]:
    written: object = block.model_dump(mode="json")
    if isinstance(written, str):  # some are written as their name where they have no parameters
        written = {"kind": written}
    again = type(block).model_validate(written, context=IN_SI)
    if again != block:
        yield f"{written} reads as {again!r}"


def _natures(block: Spec) -> Iterator[str]:
    declared: Iterator[tuple[str, object]] = block.natures()
    for where, nature in declared:
        if not isinstance(nature, Nature):
            yield f"`natures` gives {nature!r} for {where or 'itself'!r}; give a Nature"
            return
        for trait, clause in asdict(nature).items():
            if not isinstance(clause, str):
                yield f"`{trait}` is {clause!r}; give the reason in words"


def pickles(block: Spec) -> Iterator[str]:
    """Yield the fault of a block that comes back as another one from another process."""
    if pickle.loads(dump(block)) != block:
        yield "a different block comes back"
