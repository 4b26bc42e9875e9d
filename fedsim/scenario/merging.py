"""Merging scenarios as written: overrides into the base, the base into variants."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from fedsim.blocks.wording import format_path, printable, show
from fedsim.errors import Fault, ScenarioError
from fedsim.record.variants import BASE, is_reserved
from fedsim.scenario.located import DEEPEST, Located, Origin, path_of
from fedsim.scenario.yaml import read_text

OPTION = "--set"
"""The option of the commands that gives an override."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
"""What the name of a variant is, so that it can name a folder."""

STAR = "star"
"""The topology of a network that names none."""

OF_THE_WHOLE = ("variants", "seeds")
"""Keys that a variant cannot have: they are of the file as a whole."""


METHOD = "algorithm"
"""The key of a block that inherits from one of another kind."""

Inherited = Callable[[str, str], Collection[str]]
"""Says which keys a method of a kind takes from one of another kind that it replaces."""


def none_inherited(_before: str, _after: str) -> Collection[str]:
    """No key is inherited."""
    return ()


def merge(base: Located, over: Located, inherited: Inherited = none_inherited) -> Located:
    """Lay `over` on `base`: blocks are merged key by key, all else is replaced.

    A block of another kind or topology replaces a block whole, since its keys mean other
    things; but a method inherits what both have where they are of one family. A name stands for a
    block of that kind.
    """
    below = _block(base)
    if not isinstance(over.content, dict) or below is None:
        return over
    if _changes_kind(below, over.content):
        return _inheriting(below, over, inherited)
    merged = dict(below)
    for key, piece in over.content.items():
        own = _as_block(merged.get(key), piece) if key == METHOD else piece
        into = inherited if key == METHOD else none_inherited
        merged[key] = merge(merged[key], own, into) if key in merged else piece
    return Located(base.origin, merged)


def _as_block(below: Located | None, over: Located) -> Located:
    """Return the block that the name of a method stands for, where it is laid on a block."""
    if below is None or not isinstance(over.content, str):
        return over
    return Located(over.origin, {"kind": over})


def _inheriting(below: Mapping[str, Located], over: Located, inherited: Inherited) -> Located:
    """Return a block of another kind with what it takes from the one that it replaces."""
    content = over.content if isinstance(over.content, dict) else {}
    kinds = [str(each["kind"].content) for each in (below, content) if "kind" in each]
    taken = inherited(*kinds) if len(kinds) == 2 else ()
    kept = {key: piece for key, piece in below.items() if key in taken and key != "kind"}
    return Located(over.origin, {**kept, **content})


def _block(piece: Located) -> dict[str, Located] | None:
    """Return the keys of a block, or of the block that a preset's name stands for."""
    if isinstance(piece.content, str):
        return {"kind": piece}
    return piece.content if isinstance(piece.content, dict) else None


def _changes_kind(base: dict[str, Located], over: dict[str, Located]) -> bool:
    kinds = [block["kind"].content for block in (base, over) if "kind" in block]
    if not kinds and "topology" in over:
        below = base["topology"].content if "topology" in base else STAR
        kinds = [below, over["topology"].content]
    return len(kinds) == 2 and kinds[0] != kinds[1]


def overridden(
    tree: Located, overrides: Sequence[str], inherited: Inherited = none_inherited
) -> tuple[Located, list[Fault]]:
    """Set values, "key.path=value" each with a value in YAML, in a scenario in turn.

    A value takes the place of what was there: `variants={}` leaves no variants.
    """
    faults: list[Fault] = []
    for text in overrides:
        try:
            tree = _overridden(tree, text, inherited)
        except ScenarioError as error:
            faults.extend(error.faults)
    return tree, faults


def _overridden(tree: Located, text: str, inherited: Inherited) -> Located:
    """Lay one override on a scenario.

    Raises:
        ScenarioError: it is malformed, or its path leads through a list that is too short.
    """
    origin = Origin(f"{OPTION} {printable(text)}")
    key, equals, written = text.partition("=")
    path = path_of(key)
    if not equals or not all(path) or len(path) > DEEPEST:
        wanted = f"give a key path, = and a value, such as {OPTION} algorithm.censor=0.1"
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
                Fault(str(origin), key, each.message, each.excerpt)
                for key, each in zip(keys, faults, strict=True)
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
    """Return a tree with `value` at `path[depth:]`, in place of what was there.

    Another kind takes the place of the block whole, or inherits, as in `merge`.

    Raises:
        ScenarioError: the path leads through a list that is too short.
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
    inner = (block or {}).get(key, Located(value.origin, None))
    over = {key: place(inner, path, value, inherited, depth + 1)}
    if block is None:
        return Located(value.origin, over)
    if _changes_kind(block, over):
        into = inherited if METHOD in path[:depth] else none_inherited
        return _inheriting(block, Located(value.origin, over), into)
    return Located(tree.origin, {**block, **over})


def _no_item(path: Sequence[str], length: int, origin: Origin) -> Fault:
    numbers = f"0 to {length - 1}" if length else "none"
    items = f"{length} item{'s' if length != 1 else ''}"
    message = f"{format_path(path[:-1])} has {items}, numbered from 0; accepted here: {numbers}"
    return Fault(str(origin), format_path(path), message)


def variants(
    tree: Located, inherited: Inherited = none_inherited
) -> tuple[dict[str, Located], list[Fault]]:
    """Return the scenario as written, named `base`, and its variants; and what is wrong.

    None of those returned has variants of its own; one that is wrong is left out. One that differs
    in nothing gives the scenario as written its own name and place.
    """
    if not isinstance(tree.content, dict):
        return {BASE: tree}, []
    content = dict(tree.content)
    written = content.pop("variants", None)
    base = Located(tree.origin, content)
    if written is None or written.content is None:
        return {BASE: base}, []
    if not isinstance(written.content, dict):
        seen = f"got {show(written.plain())}; give a block of names, each with what differs"
        return {BASE: base}, [tree.fault(("variants",), seen)]
    merged, faults = {BASE: base}, list[Fault]()
    for name, over in written.content.items():
        wrong = _wrong_variant(name, over, merged)
        faults += [tree.fault(("variants", name, *key), text) for key, text in wrong]
        if not wrong:
            merged[name] = merge(base, over, inherited)
    own = own_name(tree)
    if own in merged and own != BASE:
        del merged[BASE]
    return merged, faults


def own_name(tree: Located) -> str:
    """Return what the scenario as written is called among its variants."""
    written = tree.get("variants")
    over = written.content if written else None
    names = over.items() if isinstance(over, dict) else ()
    return next((name for name, differing in names if differing.content == {}), BASE)


def _wrong_variant(
    name: str, over: Located, others: dict[str, Located]
) -> list[tuple[tuple[str, ...], str]]:
    """Return the keys and the faults of a variant, before it is merged."""
    if not re.fullmatch(NAME, name):
        return [((), "a variant names a folder: letters, digits, - _ and ., the first no sign")]
    if is_reserved(name):
        text = "the name is that of something else in the folder of a study; give another one"
        return [((), text)]
    for other in others:
        if name.casefold() == other.casefold():
            what = "that of the scenario as written" if other == BASE else f"as good as '{other}'"
            return [((), f"the name is {what}; case makes no difference to some file systems")]
    if not isinstance(over.content, dict):
        return [((), f"got {show(over.plain())}; give a block with the keys that differ")]
    text = "belongs to the file as a whole; move it out of the variant"
    return [((key,), text) for key in OF_THE_WHOLE if key in over.content]
