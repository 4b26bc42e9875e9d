"""Every registered block of every kind keeps what is promised of any block."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic import ValidationError, model_serializer

from fedsim.addons.conformance import check_block
from fedsim.addons.conformance.any_block import check_any
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.plugins import specs_in
from fedsim.core.blocks.spec import Spec
from fedsim.problems import JaxLoss
from fedsim.scenario import load
from fedsim.scenario.registries import REGISTRIES
from fedsim.testing import assert_kept
from tests.methods import METHODS, PEERS, scenario
from tests.scenario.blocks import GOOD
from tests.scenario.examples import made

from .test_conformance_blocks import BLOCKS

_WEIGHTED = ("L2", "ElasticNet", "GroupL2", "Nuclear")
_FILES = ("LibSVM", "NpzArchive", "ImageFolder", "HuggingFace", "Text", "Leaf")
_MOVING = ("Geometric", "RandomWaypoint", "LevyWalk", "PositionTraces")
_COUNTED = ("TrimmedMean", "Krum", "MultiKrum", "Bulyan", "MinimumDiameter")
GIVEN: dict[str, dict[str, Any]] = {
    "StepSchedule": {"every": 2},
    "CosineSchedule": {"over": 10},
    **{key: {"weight": 0.1} for key in _WEIGHTED},
    **{key: {"path": "a"} for key in _FILES},
    **{key: {"path": "a", "label": "y"} for key in ("Csv", "Table")},
    "Database": {"address": "sqlite:///a.db", "query": "select 1", "label": "y"},
    **{key: {"name": "a", "label": "y"} for key in ("OpenML", "Hub")},
    "Idx": {"images": "a", "labels": "b"},
    "FedScale": {"mapping": "a", "samples": "b"},
    "Catalogue": {"name": "ijcnn1"},
    **{key: {"degree": 2} for key in ("Random", "Regular")},
    "Listed": {"edges": [[0, 1]]},
    "Contacts": {"contacts": [[0, 1, 0, 5]]},
    **{key: {"range": 50} for key in _MOVING},
    "PositionTraces": {"range": 50, "path": "a"},
    "PlantedSmoothness": {"growth": 1.3},
    "GivenMatrix": {"rows": [[0.5, 0.5], [0.5, 0.5]]},
    **{key: {"byzantine": 1} for key in _COUNTED},
    "CentredClipping": {"radius": 1.0},
    "ClippedGossip": {"radius": 1.0},
    "ScaledAttack": {"factor": 10.0},
    "SecAggPlus": {"neighbours": 2},
    "Partitioned": {"partitioner": "IidPartitioner"},
}
"""What blocks need of which the other tests have no example, by class."""


def every_block() -> Iterator[Spec]:
    """Yield blocks of every kind, some many times."""
    yield from BLOCKS
    for blocks in GOOD.values():
        yield from specs_in(made(**blocks))
    for kind in (*METHODS, *PEERS):
        yield from specs_in(load(scenario(kind)).variants[0].scenario)
    for registry in REGISTRIES:
        for model in registry:
            with suppress(ValidationError):  # of what it needs; it may have been yielded above
                yield model.in_si(**GIVEN.get(model.__name__, {}))


@pytest.mark.slow
def test_every_block_keeps_what_any_block_promises() -> None:
    blocks = {repr(each): each for each in every_block()}
    for block in blocks.values():
        try:
            assert_kept(check_any(block))
        except AssertionError as error:
            error.add_note(repr(block))
            raise
    known = {type(each) for each in blocks.values()}
    left = {model for registry in REGISTRIES for model in registry if model not in known}
    # Those that hold objects are tried where these are made; so is JAX's loss, in tests/addons/jax.
    assert {model for model in left if not issubclass(model, Holding)} <= {JaxLoss}


class Odd(Spec):
    """Breaks a promise."""

    fault: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        wrong: Any = {"no nature": "waits", "no text": Nature(waits=True)}  # type: ignore[arg-type]
        yield "", wrong.get(self.fault, Nature())

    @model_serializer
    def _write(self) -> dict[str, str]:
        return {"fault": "" if self.fault == "forgetful" else self.fault}

    def __reduce__(self) -> Any:
        return (Odd.in_si, ()) if self.fault == "lost" else super().__reduce__()


@pytest.mark.parametrize(
    ("fault", "promise", "said"),
    [
        ("no nature", "what it declares is said in words", "`natures` gives 'waits' for 'itself'"),
        ("no text", "what it declares is said in words", "`waits` is True; give the reason"),
        ("forgetful", "what is written of it reads back", "{'fault': ''} reads as Odd(fault='')"),
        ("lost", "it can be sent to another process and back", "ValidationError: 1 validation"),
    ],
)
def test_a_block_of_any_kind_that_breaks_a_promise_is_found(
    fault: str, promise: str, said: str
) -> None:
    table = check_block(Odd(fault=fault)).set_index("check")
    assert (table["outcome"] == "broken").sum() == 1
    assert table["reason"][promise].startswith(said)
    assert_kept(check_block(Odd(fault="")))
