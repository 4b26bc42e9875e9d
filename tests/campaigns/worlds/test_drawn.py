"""Every field of every block is drawn, and every value of those that have a few."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import chdir
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import pytest

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import ScenarioError
from fedsim.physics.infrastructure import Infrastructure
from fedsim.problems import ARCHITECTURES, LOSSES, MEASURES, OPTIMIZERS, SOURCES, SPLITS
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.secrecy import SECRECY
from fedsim.protocol.stop_rules import STOPS
from fedsim.scenario import Scenario, load
from fedsim.scenario.registries import REGISTRIES

from .campaign import prepared
from .dice import Block
from .drawing import world

NUMBER = 4000

WHOLE = {
    "Catalogue": "files that are large, and come from elsewhere",
    "GivenRows": "arrays that Python hands over: a world is a file",
    "Table": "its rows, texts and gaps are drawn in tests/problems/test_tables.py",
    "Database": "a database; see tests/problems/test_tables.py",
    "OpenML": "a data set from elsewhere",
    "Hub": "a data set from elsewhere",
    "FrameTable": "a data frame that Python hands over",
    "Partitioned": "an extra's own code: tests/problems/test_flwr_datasets.py",
    "JaxLoss": "functions that Python hands over",
    "GivenModule": "a module that Python hands over",
    "GivenMeasure": "a function that Python hands over",
    "Muon": "refused by models without matrices: tests/problems/test_optimizers.py",
    "GivenOptimizer": "an optimizer that Python hands over",
    "GivenTransformation": "an optimizer that Python hands over",
    **{model.__name__: "secure aggregation: tests/protocol/secrecy" for model in SECRECY},
    "PoissonParticipation": "tests/algorithms/test_private.py",
}
"""Classes that are not drawn, with the reason."""

FIELDS = {
    "Scenario.baseline": "a world is one run",
    "Scenario.variants": "a world is one run",
    "Scenario.sweep": "a world is one run",
    "Scenario.seeds": "a world is one run",
    "Contacts.path": "a file: tests/physics/test_graphs_in_time.py",
    "PositionTraces.path": "a file: tests/physics/test_graphs_in_time.py",
    "Edge.loss": "among peers alone: tests/sim/test_link_losses.py",
    "GraphNetwork.directed": "links of one way: tests/sim/test_link_losses.py",
    "GraphNetwork.wifi": "refused: its clients are linked to each other",
    "TreeNetwork.medium": "refused: in a medium messages take no links",
    "GraphNetwork.medium": "refused: in a medium messages take no links",
    "FedNova.optimizer_state": "refused: it takes no optimizer that has one",
    "StreamingDiLoCo.epochs": "refused: its fragments follow in steps",
    "StreamingDiLoCo.local_epochs": "refused: its fragments follow in steps",
    "StreamingDiLoCo.drop_last": "refused: its fragments follow in steps",
    **dict.fromkeys(
        (
            *("APFL.local", "APFL.local_first", "Ditto.local", "Ditto.local_first"),
            *("PFedMe.local", "PFedMe.local_first"),
            *("StreamingDiLoCo.local", "StreamingDiLoCo.local_first"),
        ),
        "refused: its clients have personal models of full size",
    ),
    "APFL.clip_norm": "refused: apfl takes plain steps",
    "APFL.optimizer_state": "refused: it takes no optimizer that has one",
    **dict.fromkeys(
        (
            *("PFedMe.epochs", "PFedMe.local_epochs", "PFedMe.drop_last", "PFedMe.schedule"),
            "PFedMe.optimizer_state",
        ),
        "refused: each of its steps is one minibatch's, and begins anew",
    ),
    "ImportanceParticipation.over": "refused: a step without some drawn clients is biased",
    "PowerOfChoiceParticipation.over": "refused: candidates take its place",
    "Scenario.secrecy": "secure aggregation: tests/protocol/secrecy",
    "Scenario.privacy": "an extra: tests/algorithms/test_private.py",
    **dict.fromkeys(
        (
            "Scenario.infrastructure",
            *(f"Infrastructure.{name}" for name in Infrastructure.model_fields),
        ),
        "changes no log: tests/results/test_infrastructure.py",
    ),
    "Stop.epsilon": "an extra: tests/algorithms/test_private.py",
    "Tier.attack": "refused: gateways are true",
    "Group.intervals": "only `robust` reads it: tests/addons/calibration",
    "Tier.intervals": "only `robust` reads it: tests/addons/calibration",
}


def _specs(value: object) -> Iterator[Spec]:
    if isinstance(value, Spec):
        yield value
        for name in type(value).model_fields:
            yield from _specs(getattr(value, name))
    elif isinstance(value, dict):
        yield from _specs(list(value.values()))
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _specs(each)


@pytest.fixture(scope="module", name="seen")
def _seen() -> dict[type[Spec], dict[str, set[Any]]]:
    """Return the values that are given to each field of each class, where a file can hold them."""
    seen: dict[type[Spec], dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    known: set[Written] = set()
    with prepared() as files, chdir(files):
        for number in range(NUMBER):
            drawn = world(number)
            new = set(_written(drawn)) - known
            specs = list(_read(drawn)) if new else []
            known |= new if specs else set()
            for spec in specs:
                for name in spec.model_fields_set:
                    seen[type(spec)][name].add(_told(getattr(spec, name)))
    return seen


def _read(drawn: Block) -> Iterator[Spec]:
    try:
        (variant,) = load(drawn).variants
    except ScenarioError:  # not every world is one that goes together
        return
    yield from _specs(variant.scenario)


Written = tuple[str, str, str, object]
"""A block's place and kind, one of its keys, and the value where it may be one of a few.

A world all of whose parts were in worlds that could be read has nothing new, and is not read.
"""


def _written(tree: Any, at: str = "") -> Iterator[Written]:
    if isinstance(tree, dict):
        kind = str(tree.get("kind", ""))
        for key, value in tree.items():
            yield at, kind, key, value if _one_of_a_few(value) else type(value)
            yield from _written(value, f"{at}.{key}")
    elif isinstance(tree, list):
        for value in tree:
            yield from _written(value, at)
    elif _one_of_a_few(tree):
        yield at, "", "", tree


def _one_of_a_few(value: object) -> bool:
    return isinstance(value, bool) or (
        isinstance(value, str) and value.replace("-", "_").isidentifier()
    )


def _told(value: object) -> object:
    return value if isinstance(value, str | bool | Enum) else None


def _classes(seen: dict[type[Spec], Any]) -> list[type[Spec]]:
    known = {model for registry in REGISTRIES for model in registry} | set(seen) | {Scenario}
    known -= {model for model in STOPS if model.value_key()}  # fields of `Stop` have their values
    return sorted((each for each in known if each.__name__ not in WHOLE), key=str)


def test_every_field_of_every_block_is_drawn(seen: dict[type[Spec], dict[str, set[Any]]]) -> None:
    missing = {
        f"{model.__name__}.{name}"
        for model in _classes(seen)
        for name in model.model_fields
        if name not in seen.get(model, {})
        and not (name == "kind" and model in STOPS)  # its kind is the key under which it stands
    }
    assert sorted(missing) == sorted(FIELDS)


def test_every_value_of_a_field_that_has_a_few_is_drawn(
    seen: dict[type[Spec], dict[str, set[Any]]],
) -> None:
    missing = {
        f"{model.__name__}.{name}: {value}"
        for model in _classes(seen)
        for name, field in model.model_fields.items()
        for value in _values(field.annotation)
        if value != field.default
        and value not in seen.get(model, {}).get(name, ())
        and f"{model.__name__}.{name}" not in FIELDS
        and not (value == "unbiased" and getattr(model, "chances", "") == "unknown")  # refused
    }
    assert sorted(missing) == []


def _values(annotation: Any) -> set[Any]:
    """Return the values of a field that has a few."""
    if annotation is bool:
        return {True, False}
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return set(annotation)
    return set()


def test_what_is_not_drawn_is_there() -> None:
    registries = (
        *(SOURCES, SPLITS, ARCHITECTURES, OPTIMIZERS, MEASURES, LOSSES),
        *(PARTICIPATION, SECRECY),
    )
    names = {model.__name__ for registry in registries for model in registry}
    assert set(WHOLE) <= names
