"""Merging: laws of blocks, then variants."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.scenario.located import Located, locate
from fedsim.scenario.merging import merge, variants
from tests.scenario.trees import BASE, OVER, blocks, merged
from tests.tiers import every

anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "kind"]), inner)
    ),
    max_leaves=8,
)


def leaves(block: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for key, value in block.items():
        inner = leaves(value, (*path, key)) if isinstance(value, dict) else {(*path, key): value}
        found |= inner
    return found


@given(blocks, blocks)
def test_the_leaves_are_those_of_both_and_the_upper_one_wins(
    base: dict[str, Any], over: dict[str, Any]
) -> None:
    assert leaves(merged(base, over)) == leaves(base) | leaves(over)


@given(blocks, blocks, blocks)
def test_merging_is_associative_on_blocks_of_one_shape(a: Any, b: Any, c: Any) -> None:
    assert merged(merged(a, b), c) == merged(a, merged(b, c))


@given(blocks)
def test_nothing_on_top_changes_nothing(block: dict[str, Any]) -> None:
    assert merged(block, {}) == block
    assert merged({}, block) == block


@given(anything)
def test_the_same_again_changes_nothing(value: Any) -> None:
    assert merged(value, value) == value


@given(anything, anything)
def test_merging_changes_neither_of_the_two(base: Any, over: Any) -> None:
    below, above = locate(base, BASE), locate(over, OVER)
    merge(below, above)
    assert (below.plain(), above.plain()) == (base, over)


@given(anything, anything.filter(lambda value: not isinstance(value, dict)))
def test_what_is_no_block_replaces(base: Any, over: Any) -> None:
    assert merged(base, over) == over


@every(
    ("base", "over", "result"),
    [
        ({"l": [1, 2, 3]}, {"l": [4]}, {"l": [4]}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
        ({"kind": "chb", "censor": 1}, {"kind": "gd", "step": 2}, {"kind": "gd", "step": 2}),
        ({"kind": "chb", "censor": 1}, {"kind": "chb", "step": 2}, None),
        ({"kind": "chb", "censor": 1}, {"censor": 2}, {"kind": "chb", "censor": 2}),
        ({"censor": 1}, {"kind": "gd"}, {"censor": 1, "kind": "gd"}),
        ("wifi", {"up": "5 Mbit/s"}, {"kind": "wifi", "up": "5 Mbit/s"}),
        ("wifi", {"kind": "lte", "up": "5 Mbit/s"}, {"kind": "lte", "up": "5 Mbit/s"}),
        ({"kind": "wifi", "up": "5 Mbit/s"}, "lte", "lte"),
    ],
)
def test_lists_kinds_and_presets(base: Any, over: Any, result: Any) -> None:
    assert merged(base, over) == (base | over if result is None else result)


def test_each_piece_keeps_its_origin() -> None:
    tree = merge(
        locate({"a": {"b": 1, "c": 2}, "k": {"kind": "x"}}, BASE),
        locate({"a": {"c": 3, "d": 4}, "k": {"kind": "y"}}, OVER),
    )
    origins = {
        (): BASE,
        ("a",): BASE,
        ("a", "b"): BASE,
        ("a", "c"): OVER,
        ("a", "d"): OVER,
        ("k",): OVER,
    }
    assert {path: tree.nearest(path)[0].origin for path in origins} == origins


def names(scenario: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    trees, faults = variants(locate(scenario, BASE))
    plain = {name: tree.plain() for name, tree in trees.items()}
    return plain, [(fault.key, fault.message) for fault in faults]


def test_variants_are_merged_over_the_scenario_as_written() -> None:
    base = {"algorithm": {"kind": "chb", "censor": 1}, "fleet": [{"count": 3}], "stop": None}
    over = {"hb": {"algorithm": {"censor": 0}}, "one": {"fleet": [{"count": 9}]}}
    plain, faults = names(base | {"variants": over})
    assert faults == []
    assert list(plain) == ["base", "hb", "one"]
    assert plain == {"base": base} | {name: merged(base, each) for name, each in over.items()}


@pytest.mark.parametrize("key", ["fleet.1.radio", "fleet[1].radio"])
def test_a_variant_sets_a_value_by_its_path(key: str) -> None:
    radio, fleet = {"kind": "wifi"}, [{"radio": "lte"}, {"radio": "lte", "count": 2}]
    plain, faults = names({"fleet": fleet, "variants": {"a": {key: radio, "seed": 2}}})
    assert plain["a"] == {"fleet": [fleet[0], {"radio": radio, "count": 2}], "seed": 2}
    assert not faults


def test_a_path_in_a_variant_is_one_of_the_variant_with_its_blocks() -> None:
    over = {"fleet.1.count": 3, "fleet": [{"count": 1}, {"count": 2}]}
    plain, faults = names({"variants": {"a": over}})
    assert plain["a"] == {"fleet": [{"count": 1}, {"count": 3}]}
    assert not faults


def test_a_path_in_a_variant_drops_the_keys_of_a_former_kind() -> None:
    scenario = {"wire": {"up": {"kind": "top-k", "fraction": 0.1}}}
    plain, faults = names(scenario | {"variants": {"a": {"wire.up.kind": "sign"}}})
    assert plain["a"] == {"wire": {"up": {"kind": "sign"}}}
    assert not faults


def test_a_path_in_a_variant_beyond_the_end_of_a_list_is_a_fault() -> None:
    over = {"a": {"fleet.1.count": 3}}
    plain, faults = names({"fleet": [{"count": 1}], "variants": over})
    expected = "variant a: fleet has 1 item, numbered from 0; accepted here: 0. "
    assert list(plain) == ["base"]
    ((key, text),) = faults
    assert key == "fleet.1"
    assert text.startswith(expected)
    assert "split the last group in the base scenario into two" in text
    assert text.endswith("the second one is then fleet.1")


@pytest.mark.parametrize("key", ["fleet.3", "fleet.x", "measures.1"])
def test_only_the_group_behind_the_last_one_is_advised_to_be_split_off(key: str) -> None:
    base = {"fleet": [{"count": 1}], "measures": ["x"], "variants": {"a": {f"{key}.count": 3}}}
    ((_, text),) = names(base)[1]
    assert "split" not in text


@pytest.mark.parametrize("scenario", [{}, {"variants": None}, {"variants": {}}])
def test_without_variants_there_is_the_base(scenario: Any) -> None:
    assert names(scenario) == ({"base": {}}, [])


@every(
    ("over", "key", "words"),
    [
        ({"base": {}}, "variants.base", "the scenario as written"),
        ({"Base": {}}, "variants.Base", "the scenario as written"),
        ({"a/b": {}}, "variants.a/b", "letters, digits, - _ + and ."),
        ({"..": {}}, "variants...", "letters, digits, - _ + and ."),
        ({".hidden": {}}, "variants..hidden", "letters, digits, - _ + and ."),
        ({"": {}}, "variants.", "letters, digits, - _ + and ."),
        ({"a\n": {}}, "variants.a\\n", "letters, digits, - _ + and ."),
        ({"\u00e9": {}}, "variants.\u00e9", "letters, digits, - _ + and ."),
        ({"x" * 101: {}}, f"variants.{'x' * 57}...", "letters, digits, - _ + and ."),
        ({"HB": {"seed": 4}, "hb": {}}, "variants.hb", "'HB'"),
        ({"hb": None}, "variants.hb", "got nothing"),
        ({"hb": [1]}, "variants.hb", "got a list"),
        ({"hb": {"variants": {}}}, "variants.hb.variants", "of the whole file"),
        ({"hb": {"seeds": 4}}, "variants.hb.seeds", "of the whole file"),
        ({"hb": {"variants.gd.seed": 4}}, "variants.hb.variants.gd.seed", "of the whole file"),
        (["hb"], "variants", "got a list"),
        ("hb", "variants", 'got "hb"'),
    ],
)
def test_a_wrong_variant_is_a_fault_and_left_out(over: Any, key: str, words: str) -> None:
    plain, ((at, message),) = names({"seed": 3, "variants": over})
    assert at == key
    assert words in message
    assert plain["base"] == {"seed": 3}
    assert len(plain) <= 2


@every("name", ["hb", "HB", "0.5", "c-1_b.2", "secagg+", "x" * 100, "9"])
def test_names_that_a_folder_can_have(name: str) -> None:
    plain, faults = names({"variants": {name: {"seed": 2}}})
    assert faults == []
    assert plain[name] == {"seed": 2}


def test_what_is_no_scenario_has_no_variants() -> None:
    tree = Located(BASE, [])
    assert variants(tree) == ({"base": tree}, [])
