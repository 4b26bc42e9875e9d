"""Recorded scenarios of runs, and the differences between two of them.

The last line of each is a hash of the other lines, for unfinished runs, which have no manifest.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fedsim.core.files import read_file
from fedsim.core.text import format_number
from fedsim.results.record.folder import SCENARIO
from fedsim.results.record.manifest import MANIFEST, check_files, damage_error

NOTHING = "-"
"""Placeholder for a value that a scenario does not have."""

_IDEAL: Mapping[str, Any] = {
    "device": {"kind": "ideal", "speed": "unlimited"},
    "radio": {"kind": "ideal", "up": "unlimited", "down": "unlimited"},
}
"""The group of a scenario without a fleet, whose clients are ideal."""

_SIGNATURE = "# sha256 of what is above: "

_OF_RUNS = {"seed", "seeds", "name"}

_MOST = 3  # values listed in a sentence


def sign(text: str) -> str:
    """Return a scenario as a run writes it, with its hash in the last line."""
    return f"{text}{_SIGNATURE}{sha256(text.encode()).hexdigest()}\n"


def read_text(folder: Path) -> str:
    """Return the scenario of a run, as YAML.

    Raises:
        DataError: there is none, or it is damaged.
    """
    path = folder / SCENARIO
    ended = (folder / MANIFEST).exists()
    if ended:
        check_files(folder, [SCENARIO])
    try:
        text = read_file(path).decode()
    except (OSError, UnicodeDecodeError):
        raise damage_error(path, "there is none, or it is no text") from None
    if not ended and text != sign(text.rpartition(_SIGNATURE)[0]):
        raise damage_error(path, "its content does not match its hash")
    return text


def parse(text: str, path: Path) -> Mapping[str, Any]:
    """Return a scenario as plain data.

    Args:
        text: as YAML.
        path: the path of its file.

    Raises:
        DataError: it is no scenario.
    """
    try:
        content = deepcopy(_load(text))
    except (YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        raise damage_error(path, f"it is no YAML: {error}") from None
    if not isinstance(content, dict) or not {"fleet", "network"} <= content.keys():
        raise damage_error(path, "it has no fleet or no network")
    return content


@lru_cache(maxsize=64)
def _load(text: str) -> Any:
    """Return the content of a YAML text, cached: a comparison parses many, at 20 ms each."""
    return YAML(typ="safe", pure=True).load(text)


def data_of(scenario: Mapping[str, Any]) -> str:
    """Return the name of a scenario's data: its name, its file, or else its kind."""
    facts: Mapping[str, Any] = scenario["problem"]["data"] or {
        "kind": scenario["problem"]["loss"]["kind"]  # programs whose clients bring their own data
    }
    return str(facts.get("name") or Path(str(facts.get("path") or facts["kind"])).name)


def group_of(scenario: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return the block of a group of clients, by its number in the clients table.

    A scenario without a fleet has one group, of ideal clients. After all groups come the gateways
    of each tier.
    """
    groups: Sequence[Mapping[str, Any]] = scenario["fleet"] or (_IDEAL,)
    return [*groups, *tiers_of(scenario)][number]


def tiers_of(scenario: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the tiers of gateways that a scenario has; none in earlier records."""
    return scenario.get("tiers") or ()


def fleet_of(scenario: Mapping[str, Any]) -> str:
    """Describe the clients of a scenario in a few words.

    >>> groups = [{"count": 6, "device": {"kind": "pi-4"}, "radio": {"kind": "wifi"}}]
    >>> fleet_of({"fleet": groups}), fleet_of({"fleet": []})
    ('6 pi-4 over wifi', 'ideal clients')
    """
    groups = [
        f"{group['count']:,} {group['device']['kind']} over {group['radio']['kind']}"
        for group in scenario["fleet"]
    ]
    more = [f"{len(groups) - _MOST} more groups"] if len(groups) > _MOST else []
    return ", ".join([*groups[:_MOST], *more]) or "ideal clients"


def setting_of(scenario: Mapping[str, Any], seeds: Sequence[int]) -> str:
    """Describe data, fleet and seeds in a few words, for the subtitle of a figure.

    >>> scenario = {"problem": {"data": {"kind": "tong"}}, "fleet": []}
    >>> setting_of(scenario, [7]), setting_of(scenario, [1, 2])
    ('tong; ideal clients; seed 7', 'tong; ideal clients; 2 seeds')
    """
    counted = f"{len(seeds)} seeds" if len(seeds) != 1 else f"seed {seeds[0]}"
    return f"{data_of(scenario)}; {fleet_of(scenario)}; {counted}"


def flat(content: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield key and value of all entries of a scenario; keys are like "fleet.0.radio.up".

    >>> dict(flat({"a": {"b": [1, 2]}, "c": {}}))
    {'a.b.0': 1, 'a.b.1': 2, 'c': {}}
    """
    pairs = (
        content.items()
        if isinstance(content, Mapping)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    empty = True
    for key, value in pairs:
        empty = False
        yield from flat(value, f"{path}.{key}" if path else str(key))
    if empty:
        yield path, content


def differing(one: object, other: object, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each key in which two scenarios differ, except seed and name, with both values.

    A list item or a block that only one scenario has, such as a battery, is one value.

    >>> list(differing({"fleet": [{"count": 1}]}, {"fleet": [{"count": 2}, {"count": 3}]}))
    [('fleet.0.count', 1, 2), ('fleet.1', '-', {'count': 3})]
    >>> list(differing({"battery": None}, {"battery": {"capacity": "5 Wh", "charge": "80 %"}}))
    [('battery', None, {'capacity': '5 Wh', 'charge': '80 %'})]
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys([*one, *other]):
            name = f"{path}.{key}" if path else str(key)
            yield from differing(one.get(key, NOTHING), other.get(key, NOTHING), name)
    elif isinstance(one, list) and isinstance(other, list):
        for place, (mine, yours) in enumerate(zip_longest(one, other, fillvalue=NOTHING)):
            if place < min(len(one), len(other)):
                yield from differing(mine, yours, f"{path}.{place}")
            else:
                yield f"{path}.{place}", mine, yours
    elif one != other and path not in _OF_RUNS:
        yield path, one, other


def describe_differences(values: Iterable[tuple[str, Any, Any]], ours: str, theirs: str) -> str:
    """Describe the values in which two scenarios differ, for the end of a clause; empty if none.

    >>> describe_differences([("stop.rounds", 3, 4)], "then", "now")
    ' (stop.rounds: 3 then, 4 now)'
    """
    parts = [
        f"{key}: {format_value(one)} {ours}, {format_value(other)} {theirs}"
        for key, one, other in values
    ]
    if not parts:
        return ""
    more = [f"{len(parts) - _MOST} more"] if len(parts) > _MOST else []
    return f" ({'; '.join([*parts[:_MOST], *more])})"


def format_value(value: object) -> str:
    """Format a value of a scenario; for a block its first values.

    >>> format_value({"count": 3, "device": {"kind": "pi-4"}}), format_value("66.66666666666666 %")
    ('count 3, device.kind pi-4', '66.6667 %')
    >>> format_value(10.0), format_value(0.25), format_value(None)
    ('10', '0.25', 'none')
    """
    if isinstance(value, float):
        return _LONG_NUMBER.sub(_rounded, str(value).removesuffix(".0"))
    if not isinstance(value, Mapping) or not value:
        return "none" if value is None else _LONG_NUMBER.sub(_rounded, str(value))
    parts = [f"{key} {format_value(item)}" for key, item in flat(value)]
    more = [f"and {len(parts) - _MOST} more"] if len(parts) > _MOST else []
    return ", ".join([*parts[:_MOST], *more])


_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(?!\d)")


def _rounded(match: re.Match[str]) -> str:
    return format_number(float(match[0]), ".6g")


# Notes: scenario settings that have no effect, or an unexpected one.
#
# They are neither errors nor conditions of a theory. `fedsim check` and `fedsim run` print them
# alike, before any run where possible; `Result.notes` holds them.

RUNS = "runs"
"""The key of notes on existing runs of a folder."""

RISEN = "objective"
"""The key of the note that a run ended above its initial objective."""

DESERTED = "clients"
"""The key of the note that a run ended because no client was left."""

ABANDONED = "rounds"
"""The key of the note that most rounds of a run were abandoned."""

LEFT = "fleet"
"""The key of the note that clients left a run for good."""

NEEDED = frozenset({RUNS, RISEN, DESERTED, ABANDONED, LEFT})
"""The keys of notes that `--quiet` prints, too: without them a result may be misread."""

_MARKS = {RISEN: "objective rose", DESERTED: "no clients left"}
"""Marks after the label of a variant with such a note."""


class Note(NamedTuple):
    """A note.

    Attributes:
        about: the variant, or the run, that it concerns.
        key: of the scenario, or one of `RUNS`, `RISEN`, `DESERTED`, `ABANDONED` and `LEFT`.
        text: a sentence.
    """

    about: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.key}: {self.text}"


Tell = Callable[[Note], None]
"""A callback for every note as it becomes known."""


def ignore_note(note: Note) -> None:
    """Ignore a note."""


def mark_labels(labels: Mapping[str, str], notes: Sequence[Note]) -> dict[str, str]:
    """Return the labels of variants, with a mark at those with a run that ended badly."""
    marks = {
        note.about.split(", seed")[0]: _MARKS[note.key] for note in notes if note.key in _MARKS
    }
    return {
        name: f"{label} ({marks[name]})" if name in marks else label
        for name, label in labels.items()
    }


def likewise(more: int) -> str:
    """Return the end of a note that is on this many further seeds, too; empty if on none.

    >>> likewise(2)
    ' (likewise in 2 more seeds)'
    """
    return f" (likewise in {more} more seed{'s' * (more > 1)})" if more else ""


def once(notes: Sequence[Note], *, needed: bool = False) -> list[Note]:
    """Return the notes of runs: one per variant and finding, each with its whole text.

    Of notes that differ in counts alone, it has the smallest and the largest count of all seeds;
    of others it is that of the first seed.

    Args:
        notes: of all runs; `Result.notes` and summary.json have them in full.
        needed: whether only those are returned without which a result may be misread.
    """
    alike: dict[tuple[str, str, int], list[Note]] = {}
    counts = Counter[tuple[str, str]]()  # a run may have several notes with one key
    for note in notes:
        if needed and note.key not in NEEDED:
            continue
        number = counts[note.about, note.key]
        counts[note.about, note.key] += 1
        alike.setdefault((note.about.split(", seed")[0], note.key, number), []).append(note)
    return [_joined(each) for each in alike.values()]


def _joined(notes: Sequence[Note]) -> Note:
    """Return one note for those of several seeds."""
    first, texts = notes[0], [note.text for note in notes]
    ranges = _with_ranges(texts)
    if len(set(texts)) == 1 or not ranges:
        return first._replace(text=f"{texts[0]}{likewise(len(texts) - 1)}")
    variant = first.about.split(", seed")[0]
    return first._replace(about=variant, text=f"{ranges} (over {len(texts)} seeds)")


_NUMBER = r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w-])"  # no part of a name such as client-6
_COUNT = re.compile(rf"({_NUMBER})(?: to ({_NUMBER}))?")


def _with_ranges(texts: Sequence[str]) -> str:
    """Return a text with the range of each count; empty if not only counts differ.

    >>> _with_ranges(["3 of 20 were late (1 to 9)", "5 of 20 were late (2 to 12)"])
    '3 to 5 of 20 were late (1 to 12)'
    """
    if len({_COUNT.sub("#", text) for text in texts}) > 1:
        return ""
    ranges = []
    for counts in zip(*(_COUNT.findall(text) for text in texts), strict=True):
        numbers = sorted((end for pair in counts for end in pair if end), key=_value)
        ends = dict.fromkeys((numbers[0], numbers[-1]))
        ranges.append(" to ".join(ends))
    return _COUNT.sub(lambda _count: ranges.pop(0), texts[0])


def _value(number: str) -> float:
    return float(number.replace(",", ""))
