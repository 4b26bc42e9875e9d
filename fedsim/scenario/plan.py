"""From a source to a plan: scenarios, variants and seeds; or all faults at once."""

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

from fedsim.core.blocks.catalogue import BlockCatalogue
from fedsim.core.blocks.in_memory import without_keys
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import format_path, join_names, nearest, reject_renamed, show
from fedsim.core.errors import DataError, Fault, ScenarioError
from fedsim.core.memory import check_budget
from fedsim.problems.held_out import count_clients
from fedsim.results.record.variants import BASE
from fedsim.scenario.examples import find_scenario
from fedsim.scenario.faults import faults_of
from fedsim.scenario.from_graph import with_graph
from fedsim.scenario.located import Located, Origin, locate, path_of
from fedsim.scenario.merging import (
    OF_THE_WHOLE,
    OPTION,
    Inherited,
    explain_missing,
    join_faults,
    name_variant,
    overridden,
    own_name,
    place,
    variants,
)
from fedsim.scenario.overridden_paths import with_paths_from
from fedsim.scenario.registries import catalogue
from fedsim.scenario.scenario import Scenario, conflicts_beside_errors
from fedsim.scenario.specs import FROM_DATA
from fedsim.scenario.sweeps import families, swept
from fedsim.scenario.yaml import MODELINE, read_file

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    from fedsim.scenario.from_graph import AnyGraph

Written = str | Path | Mapping[str, Any] | Scenario
"""A file, the name of an example, a mapping, or a scenario in Python."""


_LONGEST = 100  # characters in the name of a folder

_MOST_NAMES = 20  # variants that an error lists

RUN = 50_000
"""Memory that each run keeps until all runs are compared, bytes; a lower bound."""


@dataclass(frozen=True)
class Variant:
    """One scenario to run, under each of its seeds.

    Attributes:
        name: a valid folder name. The unchanged scenario is `base`, or has the name of the variant
            without differences.
        scenario: the complete scenario, without variants and sweeps.
        question: the comment in the first line of the file; empty if there is none.
        own: whether this is the unchanged scenario. Messages about it do not name a variant.
        version: the user's version of code passed in Python; None if there is none.
    """

    name: str
    scenario: Scenario
    question: str = ""
    own: bool = field(repr=False, compare=False, default=False)
    version: str | None = field(kw_only=True, default=None)
    _tree: Located = field(repr=False, compare=False, default=Located(Origin(), None))

    @property
    def seeds(self) -> range:
        """The seeds of the variant, one per run."""
        return range(self.scenario.seed, self.scenario.seed + self.scenario.seeds)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that determines its runs, except the seed."""
        without_seed = self.scenario.model_copy(update={"seed": 0, "seeds": 1})
        written = without_seed.model_dump_json(exclude={"variants", "sweep"})
        # The objects of code have random keys, which differ in each process; the hash leaves them
        # out.
        return sha256(without_keys(written).encode()).hexdigest()

    def text(self, seed: int) -> str:
        """Return the scenario of one run as YAML, as `dump` writes it."""
        before, after = self._around_seed
        return f"{before}\nseed: {seed}\n{after}"

    @cached_property
    def _around_seed(self) -> tuple[str, str]:
        """The parts of `text` before and after the seed, computed once.

        The line of the seed is unambiguous, since nested keys are indented.
        """
        without_seed = self.scenario.model_copy(update={"seed": 0, "seeds": 1})
        # Everything else in the file is expensive to write, and the same for all seeds.
        before, after = dump(without_seed, self.question).split("\nseed: 0\n")
        return before, after

    @property
    def written(self) -> Any:
        """The scenario as written, with overrides, but without defaults."""
        return self._tree.plain()

    @property
    def prefix(self) -> str:
        """The beginning of messages about this variant; empty for the unchanged scenario."""
        return "" if self.own else name_variant(self.name, Fault("", "", "")).message

    def fault(self, key: str, message: str, *, named: bool = True) -> Fault:
        """Return a fault at a key such as "problem.data.path".

        Its line is that of the key, or of the innermost surrounding block in the file.

        Args:
            key: the key at fault.
            message: the message.
            named: whether the message begins with the name of the variant; the unchanged scenario
                is never named.
        """
        fault = self._tree.fault(tuple(key.split(".")), message)
        return fault if self.own or not named else name_variant(self.name, fault)


@dataclass(frozen=True)
class Plan:
    """The runs of a scenario file.

    Attributes:
        name: the title of the scenario, or the name of its file.
        folder: the folder that relative paths start from: the file's, or the current one.
        variants: the variants in the order of the file; `base` first, if it is one of them.
        file: folder and file name, such as "studies/lte.yaml"; empty without a file.
        added: the names of variants that overrides have added.
        baseline: the variant that the others are compared with; empty if the scenario names none.
    """

    name: str
    folder: Path
    variants: tuple[Variant, ...]
    file: str = ""
    added: tuple[str, ...] = ()
    baseline: str = ""

    @property
    def folder_name(self) -> str:
        """The name as a folder name: other characters than letters, digits, - _ and . become -."""
        plain = re.sub(r"[^\w.-]+", "-", self.name).strip("-.")
        return plain[:_LONGEST] or "scenario"

    def of_version(self, version: str | None) -> "Plan":
        """Return the plan with the user's version of the code that was passed in Python.

        Raises:
            DataError: the version is empty or not a text.
        """
        seen: object = version
        if seen is not None and not (isinstance(seen, str) and seen.strip()):
            text = "a version is a text of your choice, such as '1' or a commit"
            raise DataError("version", f"got {seen!r}; {text}")
        versioned = tuple(replace(variant, version=version) for variant in self.variants)
        return replace(self, variants=versioned)


@reject_renamed
def load(
    source: Written,
    *,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    graph: "AnyGraph | None" = None,
    base: Path | None = None,
) -> Plan:
    """Read, merge and validate a scenario.

    Args:
        source: a YAML file, the name of an example that comes with fedsim, a mapping with the same
            content, or a `Scenario`.
        overrides: texts "key.path=value" with the value in YAML. They are applied to the scenario
            as written, before its variants.
        blocks: user-defined classes that the scenario can name: algorithms, losses, splits, ...
        graph: a graph of networkx, applied before overrides: edges have weight, rate (bit/s) and
            latency (s), nodes device, radio and battery; see `fedsim.scenario.from_graph`.
        base: where relative paths in overrides start; the current folder if None.

    Raises:
        ScenarioError: the scenario is invalid; has all faults, in the order of the file.
        BlockError: a class in `blocks` is not a block, is incomplete, or has the name of another.

    Example:
        >>> [variant.name for variant in load("censoring").variants]
        ['chb', 'hb', 'gd']
    """
    source = find_scenario(source) if isinstance(source, str | Path) else source
    tree, faults = _read(source, graph)
    original = tree
    known_blocks, question = catalogue(blocks, source), _question(source)
    inherited = families(known_blocks)
    written = _variants_in(tree)
    tree, override_faults = overridden(tree, overrides, inherited)
    added = tuple(name for name in _variants_in(tree) if name not in written)
    trees, variant_faults = variants(tree, inherited)
    unchanged = BASE if BASE in trees else own_name(tree)
    trees, sweep_faults = swept(trees, inherited, unchanged)
    faults = [*faults, *override_faults, *variant_faults, *sweep_faults]
    baseline = ""
    if not faults:
        baseline, baseline_faults = _baseline(tree, trees, original, inherited)
        faults += baseline_faults
    if not faults:
        # Only now: a faulty scenario has no meaningful variants.
        faults += without_effect(tree, overrides, inherited)
    title, folder, file = _place(source)
    valid: dict[str, Variant] = {}
    faults_by_variant: dict[str, list[Fault]] = {}
    # The scenario as written comes first, so that its faults are reported without a variant.
    for name in sorted(trees, key=lambda name: name != unchanged):
        scenario, faults_of_variant = _validate(trees[name], known_blocks)
        if scenario is not None and overrides:
            moved = with_paths_from(base or Path.cwd(), trees[name], scenario, folder)
            if moved is not trees[name]:
                trees[name] = moved
                scenario, faults_of_variant = _validate(moved, known_blocks)
        faults_by_variant[name] = [
            explain_missing(fault, trees[name], original)
            for fault in faults_of_variant
            if fault not in faults
        ]
        if scenario is not None:
            valid[name] = Variant(name, scenario, question, name == unchanged, trees[name])
    faults += join_faults(faults_by_variant, unchanged)
    plans = tuple(valid[name] for name in trees if name in valid)
    faults += _too_many(plans)
    if not faults:
        plans, faults = count_fleets(plans, folder)
    if faults:
        raise ScenarioError(sorted(faults, key=file_order))
    return Plan(plans[0].scenario.name or title, folder, plans, file, added, baseline)


def _variants_in(tree: Located) -> list[str]:
    """Return the names under `variants` in a scenario as written; empty if it is malformed."""
    below = tree.get("variants")
    return [] if below is None or not isinstance(below.content, dict) else list(below.content)


def _baseline(
    tree: Located, trees: Mapping[str, Located], original: Located, inherited: Inherited
) -> tuple[str, list[Fault]]:
    """Return the variant that the key `baseline` names, and faults; empty if it names none.

    Args:
        tree: the scenario as written, with its overrides.
        trees: all variants by name, after sweeps.
        original: the scenario as written, without overrides.
        inherited: returns the keys that a method inherits; see `merge`.
    """
    written = tree.get("baseline")
    name = written.plain() if written else ""
    if name is None or name == "":
        return "", []
    if isinstance(name, str) and name in trees:
        return name, []
    # An override may remove the variants, such as --set variants={}: then nothing is left to name.
    if isinstance(name, str) and original.get("baseline") == written:
        before, _ = swept(variants(original, inherited)[0], inherited)
        if name in before:
            return "", []
    known = f"{nearest(name, trees) or '.'} {_list_variants(list(trees))}"
    if isinstance(name, str) and name in _variants_in(tree):  # a sweep made several of it
        made, _ = swept({name: variants(tree, inherited)[0][name]}, inherited)
        text = f"got {show(name)}, of which the sweep makes {_some_of(list(made))}"
        way = "name one of these, or leave it out and name the best of them after the runs:"
        way += " `fedsim compare --against`"
        return "", [tree.fault(("baseline",), f"{text}; {way}")]
    return "", [tree.fault(("baseline",), f"got {show(name)}, which is no variant{known}")]


def _some_of(names: Sequence[str]) -> str:
    """Return names, or the first of many."""
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return join_names([*names[:_MOST_NAMES], *more], "and")


def _list_variants(names: Sequence[str]) -> str:
    """Return the names of variants as a sentence, or the first of many."""
    listed = _some_of(names)
    return f"The variant is {listed}" if len(names) == 1 else f"The variants are {listed}"


def dump(scenario: Scenario, question: str = "") -> str:
    """Return a scenario as YAML, with all defaults, without variants and sweeps.

    Args:
        scenario: the scenario.
        question: a comment for the first line.

    Example:
        >>> plan = load("censoring")
        >>> dump(plan.variants[0].scenario).splitlines()[0]
        'name: censoring'
    """
    tree = scenario.model_dump(mode="json", exclude={"variants", "sweep"})
    plain = without_keys(json.dumps(tree, ensure_ascii=False))
    return (f"# {question}\n" if question else "") + _as_yaml(plain)


@lru_cache(maxsize=64)
def _as_yaml(plain: str) -> str:
    """Convert JSON to YAML; cached, because a conversion takes 20 ms."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 2**31  # folding a long text would insert a blank
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    # With Unicode allowed, YAML would fold unusual line ends away; escapes preserve them.
    yaml.allow_unicode = plain.isprintable()
    yaml.dump(json.loads(plain), stream := StringIO())
    return stream.getvalue()


def _read(source: Written, graph: "AnyGraph | None") -> tuple[Located, list[Fault]]:
    """Return the scenario as written, with the graph merged in, and faults found in reading."""
    tree, faults = _read_source(source)
    return tree if graph is None else with_graph(tree, graph), faults


def _read_source(source: Written) -> tuple[Located, list[Fault]]:
    """Return the scenario as written, and faults found in reading that leave it usable."""
    if isinstance(source, str | Path):
        return read_file(Path(source))
    try:
        return locate(source, Origin()), []
    except (TypeError, ValueError) as error:
        raise ScenarioError([Fault("", "", str(error))]) from error


def _validate(tree: Located, known: BlockCatalogue) -> tuple[Scenario | None, list[Fault]]:
    """Return the scenario, or None and its faults."""
    if not isinstance(tree.content, dict):
        wanted = "give a block of keys; needed are problem and algorithm"
        return None, [tree.fault((), f"got {show(tree.plain())}; {wanted}")]
    try:
        # Strict validation of JSON: a text may become a path and a list a tuple, but a text never
        # becomes a number.
        text = json.dumps(tree.plain())
        return Scenario.model_validate_json(text, strict=True, context=known), []
    except ValidationError as error:
        faults = faults_of(error, tree, Scenario, known)
        more = [
            tree.fault(tuple(path_of(key)), text)
            for key, text, _ in conflicts_beside_errors(tree, known)
        ]
        return None, [*faults, *(fault for fault in more if fault not in faults)]


def count_fleets(
    variants: Sequence[Variant], folder: Path
) -> tuple[tuple[Variant, ...], list[Fault]]:
    """Resolve groups of `count: data` to numbers of clients; return variants and faults.

    This reads the data, once for all variants that have the same data, split, test rows and seed.
    """
    known: dict[str, int] = {}
    counted: list[Variant] = []
    faults: dict[str, list[Fault]] = {}
    for variant in variants:
        scenario = variant.scenario
        places = [place for place, group in enumerate(scenario.fleet) if group.count == FROM_DATA]
        if places:
            try:
                scenario = _count_clients(scenario, places, folder, known)
            except DataError as error:
                key = f"problem.{error.key}" if not error.key.startswith("fleet") else error.key
                faults[variant.name] = [variant.fault(key, str(error), named=False)]
        counted.append(replace(variant, scenario=scenario))
    unchanged = next((variant.name for variant in variants if variant.own), "")
    return tuple(counted), join_faults(faults, unchanged, len(variants))


def _count_clients(
    scenario: Scenario, places: Sequence[int], folder: Path, known: dict[str, int]
) -> Scenario:
    """Return a scenario whose group of `count: data` has a number.

    Args:
        scenario: a scenario with at least one such group.
        places: the indices of these groups.
        folder: the folder of relative paths.
        known: a cache of the numbers of clients, by problem and seed.

    Raises:
        DataError: there are several such groups, no clients are left for the group, or the data
            cannot be read.
    """
    problem, key = scenario.problem, f"fleet.{places[0]}.count"
    if len(places) > 1:
        raise DataError(f"fleet.{places[1]}.count", "got data for a second group; give a number")
    if problem.data is None:
        raise DataError(key, "got data, but clients have their own programs; give a number")
    # Variants with the same data, split and seed have the same clients, so data is read once.
    name = f"{problem.data.model_dump_json()} {problem.split} {problem.test} {scenario.seed}"
    if name not in known:
        known[name] = count_clients(
            problem.data, problem.split, problem.test, folder, scenario.seed
        )
    rest = known[name] - sum(group.count for group in scenario.fleet)
    if rest < 1:
        text = f"got data, which has {known[name]} clients, but other groups have as many or more"
        raise DataError(key, f"{text}; give them smaller counts")
    fleet = list(scenario.fleet)
    fleet[places[0]] = fleet[places[0]].model_copy(update={"count": rest})
    return scenario.model_copy(update={"fleet": tuple(fleet)})


def _too_many(variants: Sequence[Variant]) -> list[Fault]:
    """Return a fault if the runs of all variants and seeds together need too much memory."""
    runs = sum(variant.scenario.seeds for variant in variants)
    try:
        check_budget("seeds", f"{runs} runs, whose folders and figures are kept,", RUN * runs)
    except DataError as error:
        return [variants[0].fault("seeds", str(error))]
    return []


def file_order(fault: Fault) -> tuple[bool, int]:
    """Return a sort key: faults in the order of lines, those without a line last."""
    line = fault.where.rpartition(":")[2]
    in_file = line.isdecimal() and not fault.where.startswith(OPTION)
    return (False, int(line)) if in_file else (True, 0)


def _question(source: Written) -> str:
    """Return the comment in the first line of a file; empty if there is none.

    A line that names the schema of the file for editors may come before.
    """
    if not isinstance(source, str | Path):
        return ""
    with Path(source).open(encoding="utf-8-sig") as stream:
        first = stream.readline().strip()
        if first.startswith(MODELINE):
            first = stream.readline().strip()
    question = first.removeprefix("#").strip()
    return question if first.startswith("#") and question.isprintable() else ""


def _place(source: Written) -> tuple[str, Path, str]:
    """Return the default title of a scenario, the folder of its paths, and its short file name."""
    if isinstance(source, str | Path):
        path = Path(source).absolute()
        return path.stem, path.parent, "/".join(path.parts[-2:])
    return "scenario", Path.cwd(), ""


# Overrides that no variant uses, since a sweep sets the same key.


_MARK = "\0set"
"""A value that no scenario can contain, with which an override is traced into the variants."""

_WHOLE = (*OF_THE_WHOLE, "sweep")
"""Keys that determine the variants themselves; overriding them always has an effect."""


def without_effect(
    tree: Located, overrides: Sequence[str], inherited: Inherited
) -> Iterator[Fault]:
    """Yield a fault per override whose value reaches no variant.

    This happens if a sweep sets the same key. Of two overrides of one key, the last one counts, and
    the first is not reported.

    Args:
        tree: the scenario as written, with all overrides applied.
        overrides: well-formed texts "key.path=value".
        inherited: returns the keys that a method inherits; see `merge`.
    """
    paths = [path_of(text.partition("=")[0]) for text in overrides]
    for number, (text, path) in enumerate(zip(overrides, paths, strict=True)):
        if path[0] in _WHOLE:
            continue
        replaced = any(
            path[: len(later)] == later for later in paths[number + 1 :]
        )  # the last wins
        if not replaced and not _is_taken(tree, path, inherited):
            why = "the sweep sets it for each of them"
            origin = str(Origin(f"{OPTION} {text}"))
            yield Fault(
                origin, format_path(path), f"no variant takes this value: {why}; leave it out"
            )


def _is_taken(tree: Located, path: Sequence[str], inherited: Inherited) -> bool:
    """Return whether a value at a path of the scenario as written reaches some variant."""
    try:
        marked = place(tree, path, Located(Origin(), _MARK), inherited)
    except ScenarioError:  # reported elsewhere
        return True
    trees, variant_faults = variants(marked, inherited)
    trees, sweep_faults = swept(trees, inherited, BASE if BASE in trees else own_name(tree))
    return bool(variant_faults or sweep_faults) or any(
        _MARK in _scalars(tree) for tree in trees.values()
    )


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
