"""Faults in blocks that take one thing or another: paths of keys, nothing else."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from fedsim.algorithms import Algorithm
from fedsim.core.blocks.quantities import Rate
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Client, Message, Server, Silence
from fedsim.scenario import compatibility, load, scenario
from tests.scenario.examples import faults, least, the_schema, written
from tests.tiers import every


class Part(Spec):
    """A block within the block of an algorithm."""

    kind: Literal["part"] = "part"
    depth: int = Field(ge=0)


class Other(Spec):
    """Another one."""

    kind: Literal["other"] = "other"
    width: int = 1


class Mine(Algorithm):
    """An algorithm with the kinds of fields that a user may think of."""

    source: ClassVar[str] = "nobody"

    kind: Literal["mine"] = "mine"
    either: float | Literal["auto", "never"] = "auto"
    part: Annotated[Part | Other, Field(discriminator="kind")] = Other()
    parts: tuple[Part | Other, ...] = ()
    limits: dict[str, Rate] = Field(default={})
    names: list[str] = Field(default=[], max_length=2)
    widths: tuple[int, ...] = Field(default=(1,), min_length=1)
    low: int = 1
    high: int = 2

    @model_validator(mode="after")
    def _ordered(self) -> "Mine":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    async def serve(self, server: Server) -> None:
        """Do nothing."""

    async def handle(self, client: Client, message: Any) -> Message | Silence:
        """Answer nothing."""
        raise NotImplementedError


@every(
    ("block", "key", "words"),
    [
        ({"either": "atuo"}, "either", ["did you mean 'auto'?", "; or ", "give a number"]),
        ({"either": [1]}, "either", ["got a list"]),
        ({"part": {"kind": "part"}}, "part.depth", ["missing"]),
        ({"part": {"kind": "part", "depth": -1}}, "part.depth", ["got -1", "0 or more"]),
        (
            {"part": {"kind": "part", "dept": 1, "depth": 1}},
            "part.dept",
            ["'depth'?", "kind, depth"],
        ),
        ({"part": {"kind": "prat"}}, "part", ["'part', 'other'"]),
        ({"part": {}}, "part", ["kind"]),
        ({"parts": [{"kind": "other", "wdth": 1}]}, "parts.0.wdth", ["'width'?"]),
        ({"parts": [{"wdth": 1}]}, "parts.0.wdth", ["unknown key 'wdth'."]),
        ({"limits": {"a": 5}}, "limits.a", ["a bare number"]),
        ({"names": ["a", "b", "c"]}, "names", ["got a list", "2 or fewer"]),
        ({"names": [1]}, "names.0", ["got 1", "give text"]),
        ({"widths": []}, "widths", ["got a list", "1 or more of them"]),
        ({"low": 3}, "", ["low is above high"]),
    ],
)
def test_a_users_own_block_has_paths_of_keys_only(
    block: dict[str, Any], key: str, words: list[str]
) -> None:
    found = faults(least(algorithm={"kind": "mine", **block}), blocks=[Mine])
    wanted = f"algorithm.{key}".rstrip(".")
    fault = next(each for each in found if each.key == wanted)
    assert [word for word in words if word not in fault.message] == []
    assert all(each.key.startswith(wanted.rpartition(".")[0]) for each in found)


def keys_of_conflicts() -> Iterator[str]:
    """Yield the keys that conflicts between blocks name, each part that varies as `*`."""
    for module in (scenario, compatibility):
        for each in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(each, ast.Yield) and isinstance(each.value, ast.Tuple):
                key = ast.unparse(each.value.elts[0]).removeprefix("f").strip("'\"")
                yield re.sub(r"\{.*?\}", "*", key)


def inside(part: dict[str, Any], key: str) -> Iterator[dict[str, Any]]:
    """Yield what a schema has of a key, in whichever kind of block."""
    for each in (*part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from inside(each, key)
    if "$ref" in part:
        yield from inside(the_schema()["$defs"][part["$ref"].rpartition("/")[2]], key)
    for name, each in part.get("properties", {}).items():
        if key in ("*", name):
            yield each
    if key == "*" and "items" in part:
        yield part["items"]


@every("key", sorted(set(keys_of_conflicts())))
def test_a_conflict_names_a_key_that_there_is(key: str) -> None:
    parts = [the_schema()]
    for name in key.split("."):
        parts = [inner for each in parts for inner in inside(each, name)]
    assert parts


def test_late_replies_may_be_dropped_where_the_method_allows_it() -> None:
    silence = {"kind": "deadline", "after": "2 s", "late": "drop"}
    plan = load(least(silence=silence, algorithm={"kind": "mine"}), blocks=[Mine])
    assert plan.variants[0].scenario.silence.model_dump(mode="json") == silence


def test_the_steps_of_data_are_one_thing_or_another(tmp_path: Path) -> None:
    data = "  data: {kind: sklearn, name: iris, preprocess: [standardize, {frst: 3}]}"
    found = faults(written(tmp_path, {6: data}))
    assert [(fault.where, fault.key) for fault in found] == [
        ("good.yaml:6", "problem.data.preprocess.0"),
        ("good.yaml:6", "problem.data.preprocess.1.frst"),
    ]
    assert "did you mean 'standardise'?" in found[0].message
    assert "did you mean 'first'?" in found[1].message
    assert "Accepted here: first, divide" in found[1].message
