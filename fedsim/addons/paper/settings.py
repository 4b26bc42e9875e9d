"""The table beside the methods paragraph: every setting of a study that is not fedsim's default."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from fedsim.results.analysis.latex import PaperCell, PaperColumn, PaperTable
from fedsim.results.record.scenarios import NOTHING, flat, format_value
from fedsim.results.report.study import ReportedStudy
from fedsim.scenario.specs import ScenarioKeys

_OF_RUNS = {"name", "seed", "seeds"}
"""Keys that the paragraph has itself: seeds, and the name of the study."""


def chosen(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a recorded scenario that differ from their defaults, by their keys.

    Values of a preset, such as the power of a phone, are its defaults. A scenario with a block that
    is not known here (a plug-in) has all of its settings but those that are off.

    Args:
        scenario: as plain data, with all defaults, such as a run has recorded it.
    """
    values = _values(scenario)
    try:
        keys = list(_chosen_keys(ScenarioKeys.model_validate(scenario), scenario))
    except ValidationError:
        return {key: text for key, text in values.items() if text not in _OFF}
    return {
        key: text
        for key, text in values.items()
        if any(key == path or key.startswith(f"{path}.") for path in keys)
    }


_OFF = {"none", "False", "[]", "{}"}


def _values(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return all settings of a recorded scenario by their keys."""
    values = dict(flat(scenario))
    return {key: format_value(value) for key, value in values.items() if key not in _OF_RUNS}


def _chosen_keys(block: object, written: object, path: str = "") -> Iterator[str]:
    """Yield the keys of a block that differ from their defaults, and those of the blocks in it.

    Args:
        block: the part of the scenario to look at: a block, a list of blocks, or a single value.
        written: the same as plain data.
        path: its key.
    """
    if isinstance(block, BaseModel) and isinstance(written, Mapping):
        values = {**block.__dict__, **(block.model_extra or {})}
        for key in written:
            if key == "kind" or _differs(block, written, key):
                yield from _chosen_keys(values.get(key), written[key], f"{path}.{key}".lstrip("."))
    elif isinstance(block, list | tuple) and isinstance(written, list) and written:
        for number, (item, text) in enumerate(zip(block, written, strict=True)):
            yield from _chosen_keys(item, text, f"{path}.{number}")
    else:
        yield path


def _differs(block: BaseModel, written: Mapping[str, Any], key: str) -> bool:
    """Return whether a block has another value if a key is left out, or none at all."""
    rest = {name: value for name, value in written.items() if name != key}
    try:
        usual = type(block).model_validate(rest)
    except ValidationError:
        return True
    missing = object()
    return bool(getattr(usual, key, missing) != getattr(block, key, missing))


def settings_table(study: ReportedStudy) -> PaperTable:
    """Return a table of what a reader sets to repeat a study: keys, values and variants' values."""
    chosen_by = {name: chosen(run.scenario) for name, run in study.variants.items()}
    values = {name: _values(run.scenario) for name, run in study.variants.items()}
    alike, own = [], []
    for key in dict.fromkeys(key for settings in chosen_by.values() for key in settings):
        texts = {name: values[name].get(key, NOTHING) for name in chosen_by}
        if len(set(texts.values())) == 1:
            alike.append(("all", key, next(iter(texts.values()))))
        else:
            own += [
                (_name(study, name), key, text) for name, text in texts.items() if text != NOTHING
            ]
    lines = [*alike, *own]
    return PaperTable(
        "settings",
        "All settings of the study that differ from the defaults of the simulator, by their keys"
        " in a scenario file. The constants of named devices and radios are those of the presets.",
        [
            _words(head, [line[place] for line in lines])
            for place, head in enumerate(("Variant", "Key", "Value"))
        ],
    )


def _name(study: ReportedStudy, variant: str) -> str:
    return study.labels[variant].partition(" (")[0]


def _words(head: str, texts: Sequence[str]) -> PaperColumn:
    return PaperColumn(head, [PaperCell(text) for text in texts], numbers=False)
