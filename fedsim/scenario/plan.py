"""From a source to a plan: scenarios, variants and seeds, or every fault at once."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from fedsim.blocks.catalogue import BlockCatalogue
from fedsim.blocks.in_memory import without_keys
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import format_path, reject_renamed, show
from fedsim.errors import DataError, Fault, ScenarioError
from fedsim.memory import check_budget
from fedsim.problems.held_out import count_clients
from fedsim.record.variants import BASE
from fedsim.scenario.examples import find_scenario
from fedsim.scenario.faults import faults_of
from fedsim.scenario.figures import unread_targets
from fedsim.scenario.from_graph import with_graph
from fedsim.scenario.located import Located, Origin, locate, path_of
from fedsim.scenario.merging import (
    OF_THE_WHOLE,
    OPTION,
    Inherited,
    overridden,
    own_name,
    place,
    variants,
)
from fedsim.scenario.registries import catalogue
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.specs import FROM_DATA
from fedsim.scenario.sweeps import families, swept
from fedsim.scenario.yaml import read_file

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    from fedsim.scenario.from_graph import AnyGraph

Written = str | Path | Mapping[str, Any] | Scenario
"""A file, the name of an example, or the same in Python."""


_LONGEST = 100  # of the name of a folder

RUN = 50_000
"""The bytes of memory that a run takes at the least until all are compared."""


@dataclass(frozen=True)
class Variant:
    """One scenario to run, under each of its seeds.

    Attributes:
        name: fit to name a folder; the scenario as written is `base`, or has the name of the
            variant that differs in nothing.
        scenario: complete, without variants and sweeps.
        question: what its file asks in its first line; empty where it has no such line.
        own: whether it is the scenario as written, of which no fault says so.
        version: what stands for its code that was handed over in Python; None where nothing does.
    """

    name: str
    scenario: Scenario
    question: str = ""
    own: bool = field(repr=False, compare=False, default=False)
    version: str | None = field(kw_only=True, default=None)
    _tree: Located = field(repr=False, compare=False, default=Located(Origin(), None))

    @property
    def seeds(self) -> range:
        """The seeds to run it under."""
        return range(self.scenario.seed, self.scenario.seed + self.scenario.seeds)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what its runs are made from, the same under every seed."""
        own = self.scenario.model_copy(update={"seed": 0, "seeds": 1})
        written = own.model_dump_json(exclude={"variants", "sweep"})
        return sha256(without_keys(written).encode()).hexdigest()

    def text(self, seed: int) -> str:
        """Return the scenario of one run as YAML, as `dump` writes it."""
        before, after = self._around_seed
        return f"{before}\nseed: {seed}\n{after}"

    @cached_property
    def _around_seed(self) -> tuple[str, str]:
        """What `text` writes before and after the seed, once for all of them.

        Only a key of the whole scenario begins a line: what is within it is indented.
        """
        own = self.scenario.model_copy(update={"seed": 0, "seeds": 1})
        before, after = dump(own, self.question).split("\nseed: 0\n")
        return before, after

    @property
    def written(self) -> Any:  # noqa: ANN401 - parsed YAML
        """The scenario as it was written, with overrides, before defaults are filled in."""
        return self._tree.plain()

    @property
    def prefix(self) -> str:
        """How a fault of this variant begins."""
        return "" if self.own else _name_variant(self.name, Fault("", "", "")).message

    def fault(self, key: str, message: str, *, named: bool = True) -> Fault:
        """Return a fault at a key such as "problem.data.path".

        Its line is that of the key, or of the innermost block around it that was written.

        Args:
            key: the key at fault.
            message: what is wrong.
            named: whether the message begins with the variant, unless it is the scenario itself.
        """
        fault = self._tree.fault(tuple(key.split(".")), message)
        return fault if self.own or not named else _name_variant(self.name, fault)


@dataclass(frozen=True)
class Plan:
    """What a scenario file asks for.

    Attributes:
        name: the scenario's, or its file's.
        folder: where relative paths start: the file's folder; the current one without a file.
        variants: in the order of the file, `base` before them.
        file: the scenario's and its folder's name, "studies/lte.yaml"; empty without a file.
        added: the variants that are not in the scenario as written: overrides have added them.
    """

    name: str
    folder: Path
    variants: tuple[Variant, ...]
    file: str = ""
    added: tuple[str, ...] = ()

    @property
    def folder_name(self) -> str:
        """The name, as a folder can have it: what letters, digits, - _ and . leave out is -."""
        plain = re.sub(r"[^\w.-]+", "-", self.name).strip("-.")
        return plain[:_LONGEST] or "scenario"

    def of_version(self, version: str | None) -> "Plan":
        """Return the plan with a version of the code that was handed over in Python.

        Raises:
            DataError: it is no text, or an empty one.
        """
        given: object = version
        if given is not None and not (isinstance(given, str) and given.strip()):
            text = "a version is a text of your choice, such as '1' or a commit"
            raise DataError("version", f"got {given!r}; {text}")
        made = tuple(replace(each, version=version) for each in self.variants)
        return replace(self, variants=made)


@reject_renamed
def load(
    source: Written,
    *,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    graph: "AnyGraph | None" = None,
) -> Plan:
    """Read, merge and validate a scenario.

    Args:
        source: a YAML file or the name of an example that comes with fedsim, or the same as a
            mapping or a `Scenario`.
        overrides: "key.path=value" with the value in YAML, laid on the scenario as written
            before its variants are.
        blocks: user-defined classes that the scenario can name: algorithms, losses, splits, ...
        graph: of networkx, laid on it before overrides: edges have weight, rate (bit/s) and
            latency (s), nodes device, radio and battery; see `fedsim.scenario.from_graph`.

    Raises:
        ScenarioError: with every fault there is, in the order of the file.
        BlockError: one of `blocks` is no block, leaves something out, or has the name of another.

    Example:
        >>> [variant.name for variant in load("quickstart").variants]
        ['chb', 'hb', 'gd']
    """
    source = find_scenario(source) if isinstance(source, str | Path) else source
    tree, faults = _read(source, graph)
    known_here, question = catalogue(blocks, source), _question(source)
    inherited = families(known_here)
    written = _variants_in(tree)
    tree, wrong = overridden(tree, overrides, inherited)
    added = tuple(name for name in _variants_in(tree) if name not in written)
    trees, ill = variants(tree, inherited)
    own = BASE if BASE in trees else own_name(tree)
    trees, odd = swept(trees, inherited)
    faults = [*faults, *wrong, *ill, *odd]
    if not faults:
        faults += without_effect(tree, overrides, inherited)
    made: dict[str, Variant] = {}
    ill_by_variant: dict[str, list[Fault]] = {}
    for name in sorted(trees, key=lambda name: name != own):
        scenario, wrong = _validate(trees[name], known_here)
        ill_by_variant[name] = [fault for fault in wrong if fault not in faults]
        if scenario is not None:
            made[name] = Variant(name, scenario, question, name == own, trees[name])
    faults += join_faults(ill_by_variant, own)
    plans = tuple(made[name] for name in trees if name in made)
    faults += _too_many(plans)
    title, folder, file = _place(source)
    if not faults:
        plans, faults = count_fleets(plans, folder)
    if faults:
        raise ScenarioError(sorted(faults, key=file_order))
    return Plan(plans[0].scenario.name or title, folder, plans, file, added)


def _variants_in(tree: Located) -> list[str]:
    """Return the names below `variants` of a scenario as written, if they are well formed."""
    below = tree.get("variants")
    return [] if below is None or not isinstance(below.content, dict) else list(below.content)


def dump(scenario: Scenario, question: str = "") -> str:
    """Return a scenario as YAML: every default filled in, variants and sweeps left out.

    Args:
        scenario: what to write.
        question: a comment for the first line.

    Example:
        >>> plan = load("quickstart")
        >>> dump(plan.variants[0].scenario).splitlines()[0]
        'name: quickstart'
    """
    tree = scenario.model_dump(mode="json", exclude={"variants", "sweep"})
    plain = without_keys(json.dumps(tree, ensure_ascii=False))
    return (f"# {question}\n" if question else "") + _as_yaml(plain)


@lru_cache(maxsize=64)
def _as_yaml(plain: str) -> str:
    """Return JSON as YAML, which takes 20 ms: once for a scenario that is run again."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 2**31  # a long text that is folded comes back with a blank in it
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    yaml.allow_unicode = plain.isprintable()  # else escaped: it folds Unicode's line ends away
    yaml.dump(json.loads(plain), stream := StringIO())
    return stream.getvalue()


def _read(source: Written, graph: "AnyGraph | None") -> tuple[Located, list[Fault]]:
    """Return what was written, with a graph laid on it, and the faults that leave it readable."""
    tree, faults = _read_source(source)
    return tree if graph is None else with_graph(tree, graph), faults


def _read_source(source: Written) -> tuple[Located, list[Fault]]:
    """Return what was written, and the faults that leave it readable."""
    if isinstance(source, str | Path):
        return read_file(Path(source))
    try:
        return locate(source, Origin()), []
    except (TypeError, ValueError) as error:
        raise ScenarioError([Fault("", "", str(error))]) from error


def _validate(tree: Located, known: BlockCatalogue) -> tuple[Scenario | None, list[Fault]]:
    """Return the scenario, or its faults."""
    if not isinstance(tree.content, dict):
        wanted = "give a block of keys; needed are problem and algorithm"
        return None, [tree.fault((), f"got {show(tree.plain())}; {wanted}")]
    try:
        # Strict JSON: text becomes a path and a list a tuple, but no text a number.
        text = json.dumps(tree.plain())
        return Scenario.model_validate_json(text, strict=True, context=known), []
    except ValidationError as error:
        found = faults_of(error, tree, Scenario, known)
        more = (tree.fault(tuple(path_of(key)), text) for key, text in unread_targets(tree, known))
        return None, [*found, *(each for each in more if each not in found)]


def count_fleets(
    variants: Sequence[Variant], folder: Path
) -> tuple[tuple[Variant, ...], list[Fault]]:
    """Return variants in which groups of `count: data` have their number, and what prevents it.

    The data is read for it, once for all variants that share it.
    """
    known: dict[str, int] = {}
    counted: list[Variant] = []
    faults: dict[str, list[Fault]] = {}
    for variant in variants:
        scenario = variant.scenario
        places = [place for place, each in enumerate(scenario.fleet) if each.count == FROM_DATA]
        if places:
            try:
                scenario = _count_clients(scenario, places, folder, known)
            except DataError as error:
                key = f"problem.{error.key}" if not error.key.startswith("fleet") else error.key
                faults[variant.name] = [variant.fault(key, str(error), named=False)]
        counted.append(replace(variant, scenario=scenario))
    own = next((variant.name for variant in variants if variant.own), "")
    return tuple(counted), join_faults(faults, own, len(variants))


def _count_clients(
    scenario: Scenario, places: Sequence[int], folder: Path, known: dict[str, int]
) -> Scenario:
    """Return a scenario with the number of clients that the data has.

    Args:
        scenario: with groups of `count: data`.
        places: of these groups.
        folder: where relative paths start.
        known: the numbers of clients found already, by problem and seed.

    Raises:
        DataError: the data has no clients, or fewer than other groups; or cannot be read.
    """
    problem, key = scenario.problem, f"fleet.{places[0]}.count"
    if len(places) > 1:
        raise DataError(f"fleet.{places[1]}.count", "got data for a second group; give a number")
    if problem.data is None:
        raise DataError(key, "got data, but clients have programs of their own; give a number")
    name = f"{problem.data.model_dump_json()} {problem.split} {problem.test} {scenario.seed}"
    if name not in known:
        known[name] = count_clients(
            problem.data, problem.split, problem.test, folder, scenario.seed
        )
    rest = known[name] - sum(each.count for each in scenario.fleet)
    if rest < 1:
        text = f"got data, which has {known[name]} clients, but other groups have as many or more"
        raise DataError(key, f"{text}; give them smaller counts")
    fleet = list(scenario.fleet)
    fleet[places[0]] = fleet[places[0]].model_copy(update={"count": rest})
    return scenario.model_copy(update={"fleet": tuple(fleet)})


def _too_many(variants: Sequence[Variant]) -> list[Fault]:
    """Return a fault where the runs of all variants, under every seed, are too many to be kept."""
    runs = sum(variant.scenario.seeds for variant in variants)
    try:
        check_budget(
            "seeds", f"{runs} runs, of which the folders and figures are kept,", RUN * runs
        )
    except DataError as error:
        return [variants[0].fault("seeds", str(error))]
    return []


def join_faults(
    by_variant: Mapping[str, Sequence[Fault]], own: str, count: int | None = None
) -> list[Fault]:
    """Return the faults of all variants, each once.

    What is wrong in every variant, or in the scenario as written, names none of them; any other
    fault names the first variant that has it.

    Args:
        by_variant: faults, by the name of the variant, which their messages lack.
        own: the name of the variant that is the scenario as written; empty if none is.
        count: the number of all variants; that of `by_variant` if None.
    """
    found: dict[Fault, list[str]] = {}
    for name, faults in by_variant.items():
        for fault in faults:
            found.setdefault(fault, []).append(name)
    total = len(by_variant) if count is None else count
    return [
        fault if own in names or len(set(names)) == total else _name_variant(names[0], fault)
        for fault, names in found.items()
    ]


def _name_variant(variant: str, fault: Fault) -> Fault:
    """Say in a fault which variant it is of."""
    return Fault(fault.where, fault.key, f"variant {variant}: {fault.message}")


def file_order(fault: Fault) -> tuple[bool, int]:
    """Sort by line, what has none last."""
    line = fault.where.rpartition(":")[2]
    in_file = line.isdecimal() and not fault.where.startswith(OPTION)
    return (False, int(line)) if in_file else (True, 0)


def _question(source: Written) -> str:
    """Return the comment in the first line of a file that has been read; empty for none."""
    if not isinstance(source, str | Path):
        return ""
    with Path(source).open(encoding="utf-8-sig") as stream:
        first = stream.readline().strip()
    question = first.removeprefix("#").strip()
    return question if first.startswith("#") and question.isprintable() else ""


def _place(source: Written) -> tuple[str, Path, str]:
    """Return a name for a scenario that has none, where its paths start, and its file's name."""
    if isinstance(source, str | Path):
        path = Path(source).absolute()
        return path.stem, path.parent, "/".join(path.parts[-2:])
    return "scenario", Path.cwd(), ""


# Overrides that no variant takes, since a sweep sets the same key.


_MARK = "\0set"
"""A value that no scenario has, which stands for one that is set."""

_WHOLE = (*OF_THE_WHOLE, "sweep")
"""Keys that say which variants there are: what they do is seen in their number."""


def without_effect(
    tree: Located, overrides: Sequence[str], inherited: Inherited
) -> Iterator[Fault]:
    """Yield a fault for each override of which no variant takes the value.

    A sweep sets the same key for all of them then. Of two overrides of one key the last wins.

    Args:
        tree: the scenario as written, on which all overrides lie.
        overrides: "key.path=value" texts, each of which is well formed.
        inherited: as for `merge`.
    """
    paths = [path_of(text.partition("=")[0]) for text in overrides]
    for number, (text, path) in enumerate(zip(overrides, paths, strict=True)):
        if path[0] in _WHOLE:
            continue
        replaced = any(path[: len(each)] == each for each in paths[number + 1 :])  # the last wins
        if not replaced and not _is_taken(tree, path, inherited):
            why = "the sweep sets it for each of them"
            origin = str(Origin(f"{OPTION} {text}"))
            yield Fault(
                origin, format_path(path), f"no variant takes this value: {why}; leave it out"
            )


def _is_taken(tree: Located, path: Sequence[str], inherited: Inherited) -> bool:
    """Return whether a value at a path of the scenario as written is in any of its variants."""
    try:
        marked = place(tree, path, Located(Origin(), _MARK), inherited)
    except ScenarioError:  # which is reported elsewhere
        return True
    trees, wrong = variants(marked, inherited)
    trees, more = swept(trees, inherited)
    return bool(wrong or more) or any(_MARK in _scalars(each) for each in trees.values())


def _scalars(tree: Located) -> Iterator[object]:
    match tree.content:
        case dict():
            for piece in tree.content.values():
                yield from _scalars(piece)
        case list():
            for piece in tree.content:
                yield from _scalars(piece)
        case _:
            yield tree.content
