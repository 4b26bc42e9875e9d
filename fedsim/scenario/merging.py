"""Merging scenarios as written: overrides into the base, then the base into variants.

Three rules apply, in this order.

1. Overrides apply to the file as written. So `variants.gd.algorithm.step_size=0.1` changes one
   variant, and an override of the base changes all of them.
2. Each variant is merged over the base, key by key. Then its key paths, such as
   `fleet.0.availability`, set single values, as overrides do. A block whose `kind` changes is
   replaced as a whole, since keys of the old kind mean something else, or nothing, under the new
   one.
3. Methods are an exception to rule 2. If a variant replaces a method by another one of its family,
   such as `gd`, `hb` and `chb`, the common keys stay. Otherwise every variant would have to repeat
   the step size.

Merging works on located trees, not on validated objects. So every value keeps its file, line or
option for later errors.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from fedsim.core.blocks.wording import format_path, printable, show
from fedsim.core.errors import Fault, ScenarioError
from fedsim.results.record.variants import BASE, is_reserved
from fedsim.scenario.located import DEEPEST, Located, Origin, path_of
from fedsim.scenario.yaml import read_text

OPTION = "--set"
"""The command-line option of an override."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
"""The pattern of the name of a variant, which is also the name of a folder."""

STAR = "star"
"""The default topology of a network."""

OF_THE_WHOLE = ("variants", "baseline", "seeds")
"""Keys of the whole file, which a variant cannot have."""


METHOD = "algorithm"
"""The key of the block that may inherit keys from a block of another kind."""

Inherited = Callable[[str, str], Collection[str]]
"""Returns the keys that a method inherits, from the old kind and the new one."""


def none_inherited(_before: str, _after: str) -> Collection[str]:
    """Return no keys, for blocks other than methods."""
    return ()


def merge(base: Located, over: Located, inherited: Inherited = none_inherited) -> Located:
    """Merge `over` into `base`: blocks key by key; anything else is replaced.

    A block of another kind or topology replaces the old block as a whole, except that a method
    inherits the common keys of its family. A text is short for a block of that kind.

    Args:
        base: the data to start from.
        over: the differences.
        inherited: returns the keys that a method inherits.
    """
    below = _block(base)
    if not isinstance(over.content, dict) or below is None:
        return over
    # Another kind has other keys, so the old ones are dropped unless the kind inherits them.
    if _changes_kind(below, over.content):
        return _inheriting(below, over, inherited)
    merged = dict(below)
    for key, piece in over.content.items():
        block = _as_block(merged.get(key), piece) if key == METHOD else piece
        into = inherited if key == METHOD else none_inherited
        merged[key] = merge(merged[key], block, into) if key in merged else piece
    return Located(base.origin, merged)


def _as_block(below: Located | None, over: Located) -> Located:
    """Return the block that a method's name stands for, if it is merged into another block."""
    if below is None or not isinstance(over.content, str):
        return over
    return Located(over.origin, {"kind": over})


def _inheriting(below: Mapping[str, Located], over: Located, inherited: Inherited) -> Located:
    """Return a block that replaces one of another kind, with the keys that it inherits."""
    content = over.content if isinstance(over.content, dict) else {}
    kinds = [str(block["kind"].content) for block in (below, content) if "kind" in block]
    taken = inherited(*kinds) if len(kinds) == 2 else ()
    kept = {key: piece for key, piece in below.items() if key in taken and key != "kind"}
    return Located(over.origin, {**kept, **content})


def _block(piece: Located) -> dict[str, Located] | None:
    """Return the keys of a block, or of the block that a name stands for; None for other data."""
    if isinstance(piece.content, str):
        return {"kind": piece}
    return piece.content if isinstance(piece.content, dict) else None


def _changes_kind(base: dict[str, Located], over: dict[str, Located]) -> bool:
    kinds = [block["kind"].content for block in (base, over) if "kind" in block]
    # A network without a topology is a star.
    if not kinds and "topology" in over:
        below = base["topology"].content if "topology" in base else STAR
        kinds = [below, over["topology"].content]
    return len(kinds) == 2 and kinds[0] != kinds[1]


def explain_missing(fault: Fault, merged: Located, original: Located) -> Fault:
    """Return a fault that says why a key is missing, if a block of another kind has replaced it.

    Args:
        fault: a fault of the merged scenario.
        merged: the scenario with overrides, or with the differences of a variant.
        original: the scenario as written.
    """
    *around, key = path_of(fault.key)
    path = tuple(around)
    (before, depth), (after, depth_after) = original.nearest(path), merged.nearest(path)
    written, block, over = before.get(key), _block(before), _block(after)
    if not fault.message.startswith("missing") or written is None or block is None or over is None:
        return fault
    in_place = path and depth == depth_after == len(path)
    if not in_place or not _changes_kind(block, over):
        return fault
    text = (
        f"the scenario has {key}: {show(written.plain())}, but another `kind` replaces the whole"
        f" block; repeat {key} beside it"
    )
    return replace(fault, message=f"{fault.message}; {text}")


def overridden(
    tree: Located, overrides: Sequence[str], inherited: Inherited = none_inherited
) -> tuple[Located, list[Fault]]:
    """Apply overrides "key.path=value", whose values are YAML, to a scenario, in order.

    A value replaces the old one and is not merged: `variants={}` removes all variants.

    Returns:
        The scenario, and the faults of overrides that could not be applied.
    """
    faults: list[Fault] = []
    for text in overrides:
        try:
            tree = _overridden(tree, text, inherited)
        except ScenarioError as error:
            faults.extend(error.faults)
    return tree, faults


def _overridden(tree: Located, text: str, inherited: Inherited) -> Located:
    """Apply one override to a scenario.

    Raises:
        ScenarioError: the override is malformed, or has an index beyond the end of a list.
    """
    origin = Origin(f"{OPTION} {printable(text)}")
    key, equals, written = text.partition("=")
    path = path_of(key)
    if not equals or not all(path) or len(path) > DEEPEST:
        wanted = f"expected a key path, = and a value, such as {OPTION} algorithm.censor=0.1"
        fault = Fault(str(origin), "", wanted)
        raise ScenarioError([fault])
    try:
        value, faults = read_text(written, lambda _line: origin)
    except ScenarioError as error:
        value, faults = Located(origin, None), list(error.faults)
    if faults:
        keys = [".".join(filter(None, (format_path(path), fault.key))) for fault in faults]
        raise ScenarioError(
            [
                Fault(str(origin), key, fault.message, fault.excerpt)
                for key, fault in zip(keys, faults, strict=True)
            ]
        )
    return place(tree, path, value, inherited)


def place(
    tree: Located,
    path: Sequence[str],
    value: Located,
    inherited: Inherited = none_inherited,
    depth: int = 0,
) -> Located:
    """Return a tree with `value` at `path[depth:]`, in place of the old value.

    If this changes the kind of a block, the rules of `merge` apply.

    Args:
        tree: the tree.
        path: the path from the root of the scenario.
        value: the new value.
        inherited: returns the keys that a method inherits.
        depth: the depth of `tree` itself in the scenario.

    Raises:
        ScenarioError: the path has an index beyond the end of a list.
    """
    if depth == len(path):
        return value
    key = path[depth]
    if isinstance(tree.content, list):
        inner = tree.get(key)
        if inner is None:
            raise ScenarioError([_no_item(path[: depth + 1], len(tree.content), value.origin)])
        items = list(tree.content)
        items[int(key)] = place(inner, path, value, inherited, depth + 1)
        return Located(tree.origin, items)
    block = _block(tree)
    # A path may lead through blocks that are not written yet, which are created.
    inner = (block or {}).get(key, Located(value.origin, None))
    over = {key: place(inner, path, value, inherited, depth + 1)}
    if block is None:
        return Located(value.origin, over)
    # As in `merge`, a new kind drops the keys of the old one.
    if _changes_kind(block, over):
        into = inherited if METHOD in path[:depth] else none_inherited
        return _inheriting(block, Located(value.origin, over), into)
    return Located(tree.origin, {**block, **over})


def _no_item(path: Sequence[str], length: int, origin: Origin) -> Fault:
    numbers = ("none", "0")[length] if length < 2 else f"0 to {length - 1}"
    items = f"{length} item{'s' if length != 1 else ''}"
    listed, key = format_path(path[:-1]), path[-1]
    message = f"{listed} has {items}, numbered from 0; accepted here: {numbers}"
    if listed == "fleet" and key == str(length):
        message += (
            ". To give some of its clients other keys, split the last group in the base scenario"
            f" into two, whose counts add up to its count; the second one is then fleet.{key}"
        )
    if length and not key.isdigit():
        message += f"; did you mean {listed}.0.{key}?"
    return Fault(str(origin), format_path(path), message)


def variants(
    tree: Located, inherited: Inherited = none_inherited
) -> tuple[dict[str, Located], list[Fault]]:
    """Return all variants of a scenario by name, and faults.

    The result includes the unchanged scenario, as `base`. If some variant has no differences, this
    variant takes the place of `base`. An invalid variant is left out.
    """
    if not isinstance(tree.content, dict):
        return {BASE: tree}, []
    content = dict(tree.content)
    written = content.pop("variants", None)
    # Removed here, so that the files and fingerprints of runs do not depend on it.
    content.pop("baseline", None)
    base = Located(tree.origin, content)
    if written is None or written.content is None:
        return {BASE: base}, []
    if not isinstance(written.content, dict):
        seen = f"got {show(written.plain())}; expected a block of names, each with its differences"
        return {BASE: base}, [tree.fault(("variants",), seen)]
    merged, faults = {BASE: base}, list[Fault]()
    for name, over in written.content.items():
        faults_of_variant = _faults_of_variant(name, over, merged)
        faults += [tree.fault(("variants", name, *key), text) for key, text in faults_of_variant]
        if not faults_of_variant:
            try:
                merged[name] = _variant(base, over, inherited)
            except ScenarioError as error:
                faults += [name_variant(name, fault) for fault in error.faults]
    # A variant without differences is the scenario itself, so that "base" would repeat it.
    unchanged = own_name(tree)
    if unchanged in merged and unchanged != BASE:
        del merged[BASE]
    return merged, faults


def _variant(base: Located, over: Located, inherited: Inherited) -> Located:
    """Return the base with the differences of a variant: blocks first, then key paths.

    Raises:
        ScenarioError: a key path has an index beyond the end of a list.
    """
    differences = over.content if isinstance(over.content, dict) else {}
    blocks = {key: piece for key, piece in differences.items() if not _is_path(key)}
    variant = merge(base, Located(over.origin, blocks), inherited)
    for key, value in differences.items():
        if _is_path(key):
            variant = place(variant, path_of(key), value, inherited)
    return variant


def _is_path(key: str) -> bool:
    """Return whether a key is the path of a key in an inner block, as for `--set`.

    >>> _is_path("fleet.0.radio"), _is_path("fleet[0].radio"), _is_path("fleet")
    (True, True, False)
    """
    path = path_of(key)
    return 1 < len(path) <= DEEPEST and all(path)


def own_name(tree: Located) -> str:
    """Return the name of the unchanged scenario among its variants."""
    written = tree.get("variants")
    over = written.content if written else None
    names = over.items() if isinstance(over, dict) else ()
    return next((name for name, differing in names if differing.content == {}), BASE)


def _faults_of_variant(
    name: str, over: Located, others: dict[str, Located]
) -> list[tuple[tuple[str, ...], str]]:
    """Return the faults of a variant before it is merged, each with the key within the variant."""
    if not re.fullmatch(NAME, name):
        return [
            (
                (),
                "it names a folder: expected letters, digits, - _ + and ., a letter or digit first",
            )
        ]
    if is_reserved(name):
        text = "the name is reserved for another file in the folder of a study; use another one"
        return [((), text)]
    for other in others:
        if name.casefold() == other.casefold():
            what = "that of the scenario as written" if other == BASE else f"the same as '{other}'"
            return [((), f"the name is {what}; some file systems ignore case")]
    if not isinstance(over.content, dict):
        return [((), f"got {show(over.plain())}; expected a block with the keys that differ")]
    text = "is a key of the whole file; move it out of the variant"
    return [((key,), text) for key in over.content if path_of(key)[0] in OF_THE_WHOLE]


def join_faults(
    by_variant: Mapping[str, Sequence[Fault]], own: str, count: int | None = None
) -> list[Fault]:
    """Return the distinct faults of all variants.

    A fault that all variants have, or that the unchanged scenario has, names no variant. Any other
    fault names the first variant that has it. A key that is unknown in the unchanged scenario is
    one fault, though suggestions depend on what else a variant has.

    Args:
        by_variant: faults by the name of the variant; their messages do not name it.
        own: the name of the unchanged scenario; empty if it is not among the variants.
        count: the number of all variants; by default those in `by_variant`.
    """
    names_by_fault: dict[Fault, list[str]] = {}
    for name, faults in by_variant.items():
        for fault in faults:
            names_by_fault.setdefault(fault, []).append(name)
    total = len(by_variant) if count is None else count
    unknown = {(each.where, each.key) for each in by_variant.get(own, ()) if each.unknown_key}
    names_by_fault = {
        fault: names
        for fault, names in names_by_fault.items()
        if own in names or not (fault.unknown_key and (fault.where, fault.key) in unknown)
    }
    return [
        fault if own in names or len(set(names)) == total else name_variant(names[0], fault)
        for fault, names in names_by_fault.items()
    ]


def name_variant(variant: str, fault: Fault) -> Fault:
    """Prefix a fault with its variant."""
    return replace(fault, message=f"variant {variant}: {fault.message}")
