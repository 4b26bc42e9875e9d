"""Overrides: one key set from the command line."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import Fault
from fedsim.scenario.located import locate
from fedsim.scenario.merging import overridden
from tests.scenario.trees import BASE, blocks, merged
from tests.tiers import every

SCENARIO = {
    "algorithm": {"kind": "chb", "censor": 1, "step_size": 2},
    "fleet": [{"count": 3, "radio": "wifi"}, {"count": 1}],
    "stop": None,
    "variants": {"hb": {"algorithm": {"censor": 0}}},
}


def override(*texts: str) -> tuple[Any, list[Fault]]:
    tree, faults = overridden(locate(SCENARIO, BASE), texts)
    return tree.plain(), faults


@every(
    ("text", "path", "value"),
    [
        ("algorithm.censor=0.1", ("algorithm", "censor"), 0.1),
        ("algorithm.censor = 1e-3", ("algorithm", "censor"), 1e-3),
        ("name=a=b", ("name",), "a=b"),
        ("stop.time=30 s", ("stop",), {"time": "30 s"}),
        ("stop={rounds: 5, gap: 1e-4}", ("stop",), {"rounds": 5, "gap": 1e-4}),
        ("network.server.downlink=5 Mbit/s", ("network",), {"server": {"downlink": "5 Mbit/s"}}),
        ("algorithm.kind=gd", ("algorithm",), {"kind": "gd"}),
        ("fleet.1.radio=lte", ("fleet", 1), {"count": 1, "radio": "lte"}),
        ("fleet.0.radio.up=1 kbit/s", ("fleet", 0, "radio"), {"kind": "wifi", "up": "1 kbit/s"}),
        ("fleet=[]", ("fleet",), []),
        ("algorithm.censor=", ("algorithm", "censor"), None),
        ("variants.hb.seed=4", ("variants", "hb"), {"algorithm": {"censor": 0}, "seed": 4}),
        ("variants={}", ("variants",), {}),
    ],
)
def test_an_override_sets_one_key(text: str, path: tuple[str | int, ...], value: Any) -> None:
    tree, faults = overridden(locate(SCENARIO, BASE), [text])
    assert faults == []
    piece, depth = tree.nearest(path)
    assert (piece.plain(), depth) == (value, len(path))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), blocks, st.integers())
def test_an_override_is_a_merge_of_one_leaf(path: list[str], base: Any, value: int) -> None:
    over: Any = value
    for key in reversed(path):
        over = {key: over}
    tree, faults = overridden(locate(base, BASE), [f"{'.'.join(path)}={value}"])
    assert (tree.plain(), faults) == (merged(base, over), [])


def test_overrides_apply_in_turn_and_leave_the_rest() -> None:
    plain, faults = override("algorithm.kind=gd", "algorithm.step_size=7", "algorithm.step_size=8")
    assert faults == []
    assert plain == SCENARIO | {"algorithm": {"kind": "gd", "step_size": 8}}


@every(
    ("text", "key", "words"),
    [
        ("", "", "a key path, = and a value"),
        ("censor", "", "a key path, = and a value"),
        ("=5", "", "a key path, = and a value"),
        ("a..b=5", "", "a key path, = and a value"),
        (".a=5", "", "a key path, = and a value"),
        ("a" + ".a" * 5000 + "=5", "", "a key path, = and a value"),
        (
            "fleet.2.radio=lte",
            "fleet.2",
            "fleet has 2 items, numbered from 0; accepted here: 0 to 1",
        ),
        ("fleet.-1.radio=lte", "fleet.-1", "accepted here: 0 to 1"),
        ("fleet.first.radio=lte", "fleet.first", "accepted here: 0 to 1"),
        ("fleet.\u00b2=5", "fleet.\u00b2", "accepted here: 0 to 1"),
        ("stop=[", "stop", "not YAML 1.2"),
        ("stop={a: 1, a: 2}", "stop.a", "written twice"),
        ("stop=!!python/name:os.system", "stop", "a scenario holds data only"),
    ],
)
def test_a_wrong_override_is_one_fault_that_names_it(text: str, key: str, words: str) -> None:
    plain, (fault,) = override("seed=3", text)
    assert plain == SCENARIO | {"seed": 3}
    assert fault.where.startswith(f"--set {text[:50]}")
    assert fault.key == key
    assert words in fault.message
