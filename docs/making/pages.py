"""The parts of the pages that are generated from the code.

In a page stands between two comments what `GENERATED` has under the name of the first one:

    <!-- generated: name -->
    ...
    <!-- generated until here -->

`python docs/write.py` brings all pages up to date.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial

from making.blocks import (
    Common,
    Reference,
    Schema,
    alike,
    anchored,
    box,
    code,
    heading,
    inline,
    kind_of,
    prose,
    slug,
    table,
)
from making.descriptions import command_line, failures
from making.flower import flower_reference
from making.gallery import gallery
from making.networks import networks
from making.questions import questions
from rich.text import Text

from fedsim.addons.bench.page import markdown
from fedsim.addons.bench.rules import Rules, groups
from fedsim.addons.bench.scoring import season
from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.cli import describe
from fedsim.core import table_columns as columns
from fedsim.results.record import schema as log_schema
from fedsim.scenario import schema
from fedsim.wire import COMPRESSORS

PARTS: Mapping[str, tuple[str, ...]] = {
    "problem": ("problem",),
    "wire": ("wire",),
    "fleet": ("fleet", "tiers"),
    "network": ("network", "infrastructure"),
    "rounds": ("participation", "silence", "aggregation", "secrecy", "privacy", "stop"),
    "observing": ("measures", "observe", "models"),
}
"""The pages on the blocks of a scenario, under docs/scenario, and the keys that each is on."""

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "averaging": ("averaging", "control_variates", "adaptive", "diloco"),
    "censored": ("censored", "lag", "charge_aware"),
    "compressed": ("compressed", "error_feedback", "marina", "marina_p", "sign_sgd", "fedcom"),
    "sparse": ("thresholding", "matching_pursuit"),
    "composite": ("composite", "dual_averaging", "switching"),
    "personal": ("personal",),
    "asynchronous": ("asynchronous",),
    "peers": ("gossip", "exact_peers", "choco", "censored_peers", "pairwise", "push_sum"),
}
"""The pages on methods, under docs/algorithms, and the modules that each describes."""

_GENERATED = re.compile(
    r"^<!-- generated: ([\w-]+) -->\n.*?^<!-- generated until here -->$", re.MULTILINE | re.DOTALL
)


def written(page: str) -> str:
    """Return a page with all that is generated as it is now."""
    return _GENERATED.sub(
        lambda found: (
            f"<!-- generated: {found[1]} -->\n\n{GENERATED[found[1]]()}\n\n"
            "<!-- generated until here -->"
        ),
        page,
    )


@cache
def _document() -> Schema:
    """Return the schema of a file, which takes most of a second to make."""
    return schema()


def _keys() -> str:
    """Return the keys of a file, each with a link to the page on its block."""
    document = _document()
    reference = Reference(document["$defs"])
    homes = {key: page for page, keys in PARTS.items() for key in keys}
    for key, page in homes.items():
        reference.elsewhere[key] = f"scenario/{page}.md#{key}"
    reference.elsewhere["algorithm"] = "algorithms.md"
    return reference.keys(document)


def _block(page: str) -> str:
    """Return the blocks of a page under docs/scenario."""
    document = _document()
    reference = Reference(document["$defs"])
    parts = []
    for key in PARTS[page]:
        sections = list(reference.section(key, document["properties"][key], 3))
        parts += [anchored(2, f"`{key}`", key), *sections]
    return "\n\n".join(parts)


def _by_kind(part: Schema, reference: Reference) -> dict[str, Schema]:
    return {kind_of(block): block for block in reference.blocks(part)}


@cache
def _methods() -> tuple[Reference, dict[str, Schema], dict[str, Common]]:
    """Return a reference for the pages of methods, every method's block, and the common keys."""
    document = _document()
    reference = Reference(document["$defs"])
    reference.page = "../algorithms.md"
    blocks = _by_kind(document["properties"]["algorithm"], reference)
    return reference, blocks, reference.common(blocks.values(), "key")


@cache
def _common_keys() -> str:
    """Return the keys that several methods share, and the blocks within."""
    reference, _, common = _methods()
    reference.page = "../algorithms.md"
    parts = [reference.commons(common)]
    for key, each in common.items():
        parts += reference.section(f"algorithm.{key}", each.part, 3)
    return "\n\n".join(parts)


def _algorithms() -> str:
    """Return the methods by family, each with a link to its page, and then the common keys."""
    rows = []
    for page, modules in FAMILIES.items():
        for model in _models_of(modules):
            kind = str(model.model_fields["kind"].default)
            name = f'<a id="{kind}"></a><a href="algorithms/{page}.md#{kind}">{code(kind)}</a>'
            summary = inspect.cleandoc(model.__doc__ or "").split("\n\n")[0]
            rows.append((name, f'<a href="algorithms/{page}.md">{page}</a>', inline(summary)))
    shared = anchored(2, "Common keys", "common-keys")
    said = "Keys that three or more methods share. A method's own section gives other defaults."
    methods = table(("method", "page", "meaning"), rows)
    return "\n\n".join((anchored(2, "Methods", "methods"), methods, shared, said, _common_keys()))


def _models_of(modules: Iterable[str]) -> list[type[Algorithm]]:
    paths = [f"fedsim.algorithms.{module}" for module in modules]
    return [model for path in paths for model in ALGORITHMS if model.__module__ == path]


def _family(page: str) -> str:
    """Return the methods of a page: the box of each module, then its kinds with their keys."""
    reference, blocks, common = _methods()
    _common_keys()  # describes the blocks that this page links to
    reference.page = f"{page}.md"
    kinds = [str(model.model_fields["kind"].default) for model in _models_of(FAMILIES[page])]
    here = {
        key: each
        for key, each in reference.common([blocks[kind] for kind in kinds], "key").items()
        if key not in common or not alike(each.part, common[key].part)
    }
    parts: list[str] = []
    if here:
        parts += [anchored(2, "Common keys of this page", "common-keys"), reference.commons(here)]
    for module in FAMILIES[page]:
        models = _models_of([module])
        text = sys.modules[models[0].__module__].__doc__ or ""
        head, _, said = text.strip().partition("\n")
        parts += [f"## {head.rstrip('.')}", box(said)]
        same_steps = len({model.weighs_losses for model in models}) == 1
        same_source = len({model.source for model in models}) == 1
        facts = [_steps(models[0])] if same_steps else []
        facts += [_source(models[0])] if same_source else []
        facts.append(f"Code: {code(f'fedsim/algorithms/{module}.py')}")
        parts.append(f"<p>{' '.join(facts)}</p>")
        for model in models:
            kind = str(model.model_fields["kind"].default)
            parts += [heading(3, kind, kind), prose(model.__doc__ or "")]
            facts = [] if same_steps else [_steps(model)]
            facts += [] if same_source else [_source(model)]
            parts += [f"<p>{' '.join(facts)}</p>"] if facts else []
            parts.append(reference.keys(blocks[kind], common, here))
            for key, part in blocks[kind]["properties"].items():
                parts += reference.section(f"{kind}.{key}", part, 4)
    return "\n\n".join(parts)


def _steps(model: type[Algorithm]) -> str:
    """Return of which function a method takes gradient steps."""
    average = "the weighted average of the clients' losses, which is F over the sum of the weights"
    return f"Gradient steps on {'the objective F' if model.weighs_losses else average}."


def _source(model: type[Algorithm]) -> str:
    return f"Source: {inline(model.source)}."


def _compressors() -> str:
    """Return every compressor with its law, its source and its parameters."""
    document = _document()
    reference = Reference(document["$defs"])
    part = document["$defs"]["Compression"]["properties"]["compressor"]
    blocks = _by_kind(part, reference)
    parts = []
    for model in COMPRESSORS:
        kind = str(model.model_fields["kind"].default)
        parts += [heading(2, kind, kind), prose(model.__doc__ or "")]
        parts.append(f"<p>{inline(model.law)}. Source: {inline(model.source)}</p>")
        parts.append(reference.keys(blocks[kind]))
    return "\n\n".join(parts)


def _models() -> str:
    """Return the output of `fedsim list`, except for kinds with a separate page."""
    parts = []
    for title, listed in describe.listings():
        if title not in ("algorithms", "compressors"):
            columns = [
                [Text.from_markup(str(cell)).plain for cell in one.cells] for one in listed.columns
            ]
            rows = [(code(name), *map(inline, rest)) for name, *rest in zip(*columns, strict=True)]
            heads = [str(column.header) for column in listed.columns]
            parts += [anchored(2, title.capitalize(), slug(title)), table(heads, rows)]
    return "\n\n".join(parts)


def _columns() -> str:
    """Return the docstring of the log's schema: a row's definition, and the table of columns."""
    return (log_schema.__doc__ or "").partition("\n")[2].strip()


def _table_columns(name: str) -> str:
    """Return the columns of the round table or the client table."""
    rows = []
    for column in columns.TABLES[name]:
        kind = f"{column.kind}, {column.unit}" if column.unit else column.kind
        when = ONLY[column.only]
        rows.append((code(column.name), kind, inline(column.meaning + when)))
    return table(("column", "type", "meaning"), rows)


ONLY = {
    "": "",
    "carbon": "; only where a group of the fleet has `carbon`",
    "infrastructure": "; only where the scenario has `infrastructure`",
    "constraint": "; only of a method with a constraint",
    "names": "; only where the data names its clients",
    "privacy": "; only with `privacy`",
    "relays": "; only where a client of a graph forwards messages of others",
}
"""Which runs have a column, as `fedsim.core.table_columns.Column.only` says it."""


def _groups() -> str:
    """Return the tables of the bench's smaller groups."""
    parts = [
        f"### {group.capitalize()}\n\n{markdown(season(group), Rules.first(group))}"
        for group in groups()
        if group != "smooth"
    ]
    return "\n\n".join(parts)


def _events() -> str:
    """Return the events with their descriptions in the source."""
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(log_schema)).body
        if isinstance(node, ast.ClassDef) and node.name == "Event"
    )
    said = [node.value.value for node in body if isinstance(node, ast.Expr)][1:]
    rows = zip(log_schema.EVENT_NAMES, said, strict=True)
    return table(("event", "meaning"), [(code(name), inline(text)) for name, text in rows])


GENERATED: Mapping[str, Callable[[], str]] = {
    "bench": lambda: markdown(season()),
    "bench-groups": _groups,
    "keys": _keys,
    **{f"scenario-{page}": partial(_block, page) for page in PARTS},
    "algorithms": _algorithms,
    **{f"algorithms-{page}": partial(_family, page) for page in FAMILIES},
    "compressors": _compressors,
    "models": _models,
    "networks": networks,
    "columns": _columns,
    "events": _events,
    "round-columns": partial(_table_columns, "rounds"),
    "client-columns": partial(_table_columns, "clients"),
    "gallery": gallery,
    "command-line": command_line,
    "errors": failures,
    "flower": flower_reference,
    "questions": questions,
}
"""The generated parts by name."""
