"""The files of the bench: tasks, fleets, entries and the rules of a season."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from fedsim.core.errors import DataError
from fedsim.core.files import read_file

HOME = Path(__file__).parent

OWN = {"algorithm", "wire", "participation"}
"""The keys of a scenario that an entry may set: tasks and fleets set the others."""

SMOOTH = "smooth"
"""The group of entries that name none."""

WORLD: Mapping[str, Any] = {"fleet": [{"count": 12, "device": "phone-mid", "radio": "lte"}]}
"""The fleet on which entries are trained, and by whose seconds the best trial is chosen."""


def digest(value: Any) -> str:
    """Return the hash of a value that JSON can hold."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises:
        DataError: the file cannot be read, or holds no mapping.
    """
    try:
        value = YAML(typ="safe").load(read_file(path).decode())
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise DataError("entry", f"cannot read {path}: {error}") from error
    if not isinstance(value, dict):
        raise DataError("entry", f"{path}: got {type(value).__name__}; expected a mapping of keys")
    return value


def names(kind: str) -> list[str]:
    """Return the names of the bench's tasks, fleets or entries."""
    return sorted(path.stem for path in (HOME / kind).glob("*.yaml"))


def groups() -> dict[str, list[str]]:
    """Return the tasks of each group: classes of problems that take other methods."""
    own: dict[str, list[str]] = read(HOME / "season" / "rules.yaml")["groups"]
    return own


def group_of(task: str) -> str:
    """Return the group of a task: entries of the same group are compared on it.

    Raises:
        DataError: the season has no such task.
    """
    for group, own in groups().items():
        if task in own:
            return group
    accepted = ", ".join(name for own in groups().values() for name in own)
    raise DataError("tasks", f"--tasks: got {task!r}; expected one of {accepted}")


def group_in(content: Mapping[str, Any]) -> str:
    """Return the group that the file of an entry names; the smooth one if it names none."""
    return str(content.get("group", SMOOTH))


def summary_of(kind: str, name: str) -> str:
    """Return the first comment of a task, fleet or entry."""
    return read_file(HOME / kind / f"{name}.yaml").decode().partition("\n")[0].lstrip("# ")


def named(kind: str, name: str) -> dict[str, Any]:
    """Return a task or fleet of the bench.

    Raises:
        DataError: there is none of this name.
    """
    if name not in names(kind):
        accepted = ", ".join(names(kind))
        raise DataError(kind, f"--{kind}: got {name!r}; expected one of {accepted}")
    return read(HOME / kind / f"{name}.yaml")


@dataclass(frozen=True)
class Rules:
    """The rules of a season.

    Attributes:
        tasks, fleets: their names.
        studies: how often an entry is tuned and counted, each time with other seeds.
        trials: settings that are tried in a study.
        seed: of the draws of trials, and of training.
    """

    name: str
    tasks: Sequence[str]
    fleets: Sequence[str]
    studies: int
    trials: int
    seed: int

    @classmethod
    def first(cls, group: str = SMOOTH) -> "Rules":
        """Return the rules of the first season for a group of tasks.

        Raises:
            DataError: the season has no such group.
        """
        content = read(HOME / "season" / "rules.yaml")
        every = content.pop("groups")
        if group not in every:
            accepted = ", ".join(every)
            raise DataError("group", f"group: got {group!r}; expected one of {accepted}")
        return cls(tasks=every[group], **content)

    def seeds(self, study: int) -> tuple[int, int]:
        """Return the seed of a study's trials, and that of its counted run; none occurs twice."""
        first = 1000 * self.seed + 2 * study
        return first, first + 1

    def hash(self) -> str:
        """Return the hash of the rules and of all tasks and fleets that they name."""
        places = (("tasks", self.tasks), ("fleets", self.fleets))
        held = {kind: {name: named(kind, name) for name in own} for kind, own in places}
        return digest({**held, "world": WORLD, "season": [self.studies, self.trials, self.seed]})

    def hashes(self) -> dict[str, str]:
        """Return the hash of each task and fleet, and of the season's other rules."""
        season = {"season": digest([WORLD, self.studies, self.trials, self.seed])}
        places = (("tasks", self.tasks), ("fleets", self.fleets))
        own = {
            f"{kind}/{name}": digest(named(kind, name)) for kind, some in places for name in some
        }
        return {**season, **own}


@dataclass(frozen=True)
class Entry:
    """A method with its settings, or with a space of settings.

    Attributes:
        path: the file.
        name: of the entry.
        content: of the file.
    """

    path: Path
    name: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, place: str | Path) -> "Entry":
        """Read an entry: a file, or the name of one of the bench's.

        Raises:
            DataError: it is invalid.
        """
        own = HOME / "entries" / f"{place}.yaml"
        path = own if str(place) in names("entries") else Path(place)
        if not path.is_file():
            accepted = ", ".join(names("entries"))
            raise DataError("entry", f"got {place}; expected a YAML file, or one of {accepted}")
        content = read(path)
        entry = cls(path, str(content.get("name", path.stem)), content)
        entry._check()
        return entry

    def _check(self) -> None:
        division = self.content.get("division")
        if division not in {"closed", "open"}:
            raise DataError(
                "entry", f"{self.path}: division: got {division!r}; expected closed or open"
            )
        known = {"name", "division", "group", "scenario", "search", "tasks", "plugin"}
        if unknown := self.content.keys() - known:
            wanted = ", ".join(sorted(known))
            raise DataError("entry", f"{self.path}: got {sorted(unknown)}; expected {wanted}")
        Rules.first(self.group)
        for block in (self.content, *self.content.get("tasks", {}).values()):
            keys = {
                *block.get("scenario", {}),
                *(key.split(".")[0] for key in block.get("search", {})),
            }
            if keys - OWN:
                wanted = ", ".join(sorted(OWN))
                raise DataError(
                    "entry", f"{self.path}: got {sorted(keys - OWN)}; an entry sets {wanted}"
                )
            if division == "open" and block.get("search"):
                raise DataError(
                    "entry", f"{self.path}: search: the open division states its settings"
                )

    @property
    def group(self) -> str:
        """The group of tasks to which the entry applies."""
        return group_in(self.content)

    @property
    def plugins(self) -> list[Path]:
        """The file with the user's own method, if there is one."""
        own = self.content.get("plugin")
        return [self.path.parent / own] if own else []

    def hash(self) -> str:
        """Return the hash of the entry and its plugin."""
        return digest([self.content, [read_file(path).decode() for path in self.plugins]])

    def block(self, task: str) -> Mapping[str, Any]:
        """Return the entry's scenario and search for a task."""
        return {**self.content, **self.content.get("tasks", {}).get(task, {})}

    def trials(self, task: str, study: int, rules: Rules) -> list[dict[str, Any]]:
        """Return the settings that a study tries: overrides of the scenario.

        They are drawn without replacement from the entry's search space; the draw depends on the
        rules, the entry's name, the task and the study alone. A smaller space is tried as a whole.
        """
        search = self.block(task).get("search", {})
        space = [dict(zip(search, values, strict=True)) for values in product(*search.values())]
        key = digest([rules.seed, self.name, task, study])
        order = np.random.default_rng(int(key[:16], 16)).permutation(len(space))
        return [space[index] for index in order[: rules.trials]]


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as blocks of a scenario.

    >>> nested({"algorithm.step_size": 1, "algorithm.batch": 16})
    {'algorithm': {'step_size': 1, 'batch': 16}}
    """
    blocks: dict[str, Any] = {}
    for key, value in settings.items():
        *above, last = key.split(".")
        block = blocks
        for name in above:
            block = block.setdefault(name, {})
        block[last] = value
    return blocks
