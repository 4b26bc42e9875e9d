"""Random worlds: every one ends as it may, and its log passes an audit from outside."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.presets import Presettable
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.spec import Spec
from fedsim.physics.availability import AVAILABILITY
from fedsim.physics.batteries import CHARGING
from fedsim.physics.devices import Device, Phone
from fedsim.physics.overlay import OVERLAYS
from fedsim.physics.packet_loss import PACKET_LOSSES
from fedsim.physics.radios import RADIO_KINDS
from fedsim.physics.radios.traces import TRACES
from fedsim.physics.slowdowns import SLOWDOWNS
from fedsim.problems import (
    LOSSES,
    MEASURES,
    OPTIMIZERS,
    PENALTIES,
    SCHEDULES,
    SOURCES,
    SPLITS,
    STARTS,
)
from fedsim.protocol.participation import PARTICIPATION
from fedsim.protocol.silence import SILENCES
from fedsim.wire import COMPRESSORS, ValueFormat

from .campaign import Played, played, prepared, report
from .drawing import world
from .playing import Outcome
from .shrinking import shrunk

WORLDS = 50


ELSEWHERE = {"catalogue", "table", "sql", "openml", "hub"}
"""Data whose files are large and from elsewhere, or that has none; see `test_drawn`."""


@pytest.fixture(scope="module")
def files() -> Iterator[Path]:
    with prepared() as folder:
        yield folder


def test_every_world_ends_as_it_may_and_passes_the_audit(files: Path) -> None:
    some = played(range(1, WORLDS + 1), files)
    findings = [each for each in some if each.outcome.end == "finding"]
    assert not findings, "\n".join(f"world {each.number}: {each.outcome.text}" for each in findings)
    refused = [each.outcome.text for each in some if each.outcome.end == "refused"]
    possible = len(some) - sum("pip install" in text for text in refused)  # for an extra
    assert len(some) - len(refused) > 0.5 * possible  # of all worlds it is two thirds; see `report`


def test_a_world_is_a_function_of_its_number() -> None:
    for number in range(20):
        assert world(number) == world(number)
        assert json.loads(json.dumps(world(number))) == world(number)  # it is plain
    assert len({json.dumps(world(number)) for number in range(200)}) == 200


def _names(models: Iterable[type[Spec]]) -> set[str]:
    """Return the kinds that a scenario can name; the others hold an object passed in Python."""
    return {
        kind
        for model in models
        if not issubclass(model, Holding)
        for kind in (model.names() if issubclass(model, Presettable) else kinds_of(model))
    }


def _blocks(tree: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every block of a world with the key that it stands at."""
    if isinstance(tree, dict):
        yield at, tree
        for key, value in tree.items():
            yield from _blocks(value, key)
    elif isinstance(tree, list):
        for value in tree:
            yield from _blocks(value, at)


def test_every_kind_of_every_block_is_drawn() -> None:
    seen: dict[str, set[str]] = {}
    for number in range(2000):
        for at, block in _blocks(world(number)):
            for key in {"kind", "topology", "values", "error_feedback", "discipline"} & set(block):
                seen.setdefault(at if key == "kind" else key, set()).add(block[key])
            seen.setdefault("keys", set()).update(block)
    expected = {
        "algorithm": _names(ALGORITHMS),
        "optimizer": _names(OPTIMIZERS) - {"muon"},
        "server_optimizer": _names(OPTIMIZERS) - {"muon"},
        "schedule": _names(SCHEDULES),
        "peers": _names(OVERLAYS),
        "loss": (_names(LOSSES) - {"jax"}) | _names(PACKET_LOSSES),
        "penalty": _names(PENALTIES),
        "data": _names(SOURCES) - ELSEWHERE,
        "split": _names(SPLITS) - {"flwr-datasets"},
        "start": _names(STARTS),
        "measures": _names(MEASURES),
        "compressor": _names(COMPRESSORS),
        "values": {each.value for each in ValueFormat},
        "error_feedback": {"none", "ef", "ef21"},
        "device": _names((Device, Phone)),
        "slowdown": _names(SLOWDOWNS),
        "radio": _names(RADIO_KINDS),
        "up_trace": _names(TRACES),
        "charging": _names(CHARGING),
        "carbon": {"constant", "hourly", "DE"},
        "availability": _names(AVAILABILITY),
        "topology": {"star", "tree", "graph"},
        "discipline": {"fair", "fifo", "slotted"},
        "participation": _names(PARTICIPATION) - {"poisson"},  # see test_drawn
        "silence": _names(SILENCES),
    }
    for at, kinds in expected.items():
        assert seen[at] >= kinds, at
    stops = {"rounds", "gap", "time", "bits", "energy", "batteries", "patience"}
    assert seen["keys"] >= stops | {
        "model",
        "broadcast",
        "test",
        "quorum",
        "over",
        "deadline",
        "give_up",
    }


def test_a_failing_world_is_made_as_small_as_its_failure_allows() -> None:
    def fails(block: dict[str, Any]) -> bool:
        groups = block.get("fleet", [])
        return any("loss" in group.get("radio", {}) for group in groups) and "seed" in block

    number = next(number for number in range(99) if fails(world(number)))
    small = shrunk(world(number), fails, tries=500)
    assert set(small) == {"seed", "fleet"}
    assert [set(group) for group in small["fleet"]] == [{"radio"}]
    assert set(small["fleet"][0]["radio"]) == {"kind", "loss"}


def test_a_report_counts_ends_and_reasons() -> None:
    ends = [Outcome("done", "", "rounds"), Outcome("refused", "", "key: why")]
    text = report([Played(number, ends[number % 2]) for number in range(4)])
    assert text.splitlines()[0] == "4 worlds, 50.0% accepted as drawn"
    assert "      2  key: why" in text
