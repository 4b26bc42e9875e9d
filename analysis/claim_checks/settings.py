"""Settings: what runs for the claims of a figure, as its row among the papers has it."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import functions, measures, model
from ruamel.yaml import YAML

import fedsim
from claim_checks.papers import Experiment
from fedsim.scenario.scenario import Scenario


class Setting(NamedTuple):
    """What runs for an experiment.

    Attributes:
        place: of the row in its paper, "CHB, Figure 2".
        row: of the paper.
        case: of the row.
        scenario: with the methods of the claims alone, each at the best of what its row tries.
        labels: variant -> what the row calls it.
    """

    place: str
    row: model.Row
    case: model.Setting
    scenario: Mapping[str, Any]
    labels: Mapping[str, str]

    def published(self, label: str, measure: str) -> float:
        """Return what the paper prints for a method; NaN if it prints no number."""
        line = model.SEPARATOR.join(filter(None, (self.case.name, label)))
        value = self.row.values(line).get(measure)
        return float("nan") if value is None or isinstance(value, str) else float(value)


@cache
def _paper(name: str) -> model.Paper:
    return model.read(model.FOLDER / f"{name}.yaml")


def place(experiment: Experiment) -> str:
    """Return the number of a figure or table, with the name of its paper."""
    paper = _paper(experiment.paper)
    name = f"{paper.name}, {paper.every[experiment.row].place}"
    return f"{name}, {experiment.case}" if experiment.case else name


def read(experiment: Experiment, out: Path, overrides: Sequence[str] = ()) -> Setting:
    """Return what runs for an experiment.

    Args:
        experiment: which one.
        out: for files that the row makes.
        overrides: of the scenario, in the place of the experiment's and the row's.
    """
    row = _paper(experiment.paper).every[experiment.row]
    (case,) = [each for each in row.settings() if each.name == experiment.case]
    made = functions.PREPARED[row.prepared](out) if row.prepared else []
    texts = (*case.overrides, *made, *experiment.overrides, *overrides)
    every = {text.partition("=")[0]: text for text in texts}
    plan = fedsim.load(case.scenario, overrides=list(every.values()))
    blocks = {each.name: _dump(each.scenario) for each in plan.variants}
    labels = dict[str, str]()
    for label in experiment.labels:
        name, best = _best(experiment.paper, experiment.row, case, label)
        blocks[name]["algorithm"] |= best
        labels[name] = label
    base = blocks[measures.BASE]
    scenario = base | {
        "variants": {
            name: {key: value for key, value in blocks[name].items() if value != base[key]}
            for name in labels
            if name != measures.BASE
        }
    }
    return Setting(place(experiment), row, case, scenario, labels)


def _dump(scenario: Scenario) -> dict[str, Any]:
    return scenario.model_dump(mode="json", exclude={"variants", "sweep"})


def _best(paper: str, row: str, case: model.Setting, label: str) -> tuple[str, Mapping[str, Any]]:
    """Return the variant of a method, and keys of its algorithm, which its row has found best.

    Raises:
        KeyError: the row tries several, and nothing is kept of it.
    """
    own = [name for name, called in case.labels.items() if called == label]
    if len(own) == 1 and not case.search:
        return own[0], {}
    line = model.SEPARATOR.join(filter(None, (case.name, label)))
    parts = measures.load(paper)[row].tried[line].split(", ")
    name = parts.pop(0) if parts[0] in own else own[0]
    pairs = (part.partition(" ") for part in parts)
    return name, {key: YAML(typ="safe").load(value) for key, _, value in pairs}
