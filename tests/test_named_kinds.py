"""What messages and descriptions call a kind by is one: a kind that is renamed is found in them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import fedsim
from fedsim.problems import LOSSES, PENALTIES, Loss
from fedsim.scenario.json_schema import schema
from fedsim.scenario.registries import REGISTRIES
from fedsim.wire import COMPRESSORS, Compressor
from tests.tiers import every

SOURCE = Path(fedsim.__file__).parent
NAMED = re.compile(r"\bkind: ([a-z][a-z0-9-]*)")


def texts(path: Path) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings."""
    tree = ast.parse(path.read_text())
    said = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in said else None
        if isinstance(text, str) and " " in text:  # what has none is a name, not a message
            yield text


def values(part: object) -> Iterator[str]:
    """Yield every value that a key of a scenario may be told to have."""
    if isinstance(part, dict):
        yield from (each for each in part.get("enum", ()) if isinstance(each, str))
        yield str(part.get("const", ""))
        for each in part.values():
            yield from values(each)
    elif isinstance(part, list):
        for each in part:
            yield from values(each)


@pytest.fixture(scope="module")
def known() -> set[str]:
    own = {name for registry in REGISTRIES for name in registry.own}
    balls = {penalty.ball for penalty in PENALTIES if penalty.ball}
    return own | balls | set(values(schema()))


def test_a_block_that_is_made_without_its_kind_has_that_by_which_it_is_found() -> None:
    for registry in REGISTRIES:
        for model in registry:
            field = model.model_fields[registry.key]
            accepted = get_args(field.annotation)
            assert field.is_required() or not accepted or field.default in accepted, model


@pytest.mark.slow
def test_a_kind_that_a_message_names_is_there(known: set[str]) -> None:
    named = {
        (kind, path.relative_to(SOURCE).as_posix())
        for path in SOURCE.rglob("*.py")
        for text in texts(path)
        for kind in NAMED.findall(text)
    }
    assert len(named) > 10
    assert not [(kind, path) for kind, path in sorted(named) if kind not in known]


@every("loss", LOSSES)
def test_what_a_loss_says_of_itself_is_what_it_does(loss: type[Loss]) -> None:
    assert bool(loss.classifies) == (loss.scores is not Loss.scores)
    assert loss.of_matrices == (loss.shape is not Loss.shape)
    assert loss.constrained == (loss.constraint is not Loss.constraint)


@every("compressor", COMPRESSORS)
def test_a_compressor_is_unbiased_as_its_contract_is(compressor: type[Compressor]) -> None:
    needed: dict[str, dict[str, Any]] = {
        "top-k": {"count": 1},
        "rand-k": {"count": 1},
        "threshold": {"threshold": 1.0},
    }
    made = compressor(**needed.get(compressor.model_fields["kind"].default, {}))
    assert compressor.unbiased() == (made.contract(9).kind == "unbiased")
