"""What is wrong with the doubts of a preset: intervals that cannot be, and sources of nothing."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import get_args

from pydantic import ValidationError

from fedsim.blocks.presets import Basis, Doubt, Preset, Presettable, Source


def faults_of_doubts(
    model: type[Presettable], name: str, preset: Preset | None = None
) -> Iterator[str]:
    """Yield what is wrong with the doubts of a preset, one sentence a fault.

    The block itself says what is possible: it is made with each end of each interval, and with
    each pair of ends of two intervals, such as the least active power with the most idle power.

    Args:
        model: the class of the block.
        name: of the preset.
        preset: in place of the one that the class has of this name.
    """
    row = model.presets[name] if preset is None else preset
    written = {**row.values, "kind": name}
    known = set[str]()
    for field, doubt in row.doubts.items():
        wrong = list(_faults_of_one(model, field, doubt, written))
        yield from (f"{name}: {field}: {each}" for each in wrong)
        if not wrong:
            known.add(field)
    for field, other in combinations([field for field in row.doubts if field in known], 2):
        yield from _faults_of_two(model, written, row.doubts, (field, other))


def _faults_of_one(
    model: type[Presettable], field: str, doubt: Doubt, written: Mapping[str, str | float]
) -> Iterator[str]:
    """Yield what is wrong with one doubt by itself."""
    yield from _faults_of_source(doubt.source)
    if doubt.basis not in get_args(Basis):
        yield f"got the basis {doubt.basis!r}; give one of {', '.join(get_args(Basis))}"
    if field not in model.model_fields:
        yield "is no field of the block, and cannot be in doubt"
        return
    figures = list[float]()
    for figure in (doubt.low, written.get(field), doubt.high):
        with_it = written if figure is None else {**written, field: figure}
        try:
            value = getattr(model.model_validate(with_it), field)
        except ValidationError as error:
            yield f"the interval holds what cannot be: {error.errors()[0]['msg']}"
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"got {value!r}, which is no figure, and cannot be in doubt"
            return
        figures.append(value)
    if not figures[0] <= figures[1] <= figures[2]:
        yield (
            f"the interval from {doubt.low} to {doubt.high} does not hold the value,"
            f" {written.get(field, figures[1])}; give low <= value <= high"
        )


def _faults_of_two(
    model: type[Presettable],
    written: Mapping[str, str | float],
    doubts: Mapping[str, Doubt],
    fields: tuple[str, str],
) -> Iterator[str]:
    """Yield which ends of two intervals cannot be together, at most one pair."""
    first, second = fields
    for one in doubts[first][:2]:
        for other in doubts[second][:2]:
            try:
                model.model_validate({**written, first: one, second: other})
            except ValidationError as error:
                yield (
                    f"{written['kind']}: {first} {one} and {second} {other} cannot be together:"
                    f" {error.errors()[0]['msg']}"
                )
                return


def _faults_of_source(source: Source) -> Iterator[str]:
    """Yield what a source lacks to be found."""
    for part in ("authors", "title", "where"):
        if not getattr(source, part).strip():
            yield f"its source has no {part}"
    if not 1900 < source.year < 2100:
        yield f"its source is of the year {source.year}"
