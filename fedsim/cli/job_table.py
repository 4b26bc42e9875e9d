"""The tables of `fedsim check`: shared settings, one job, the split, and differing settings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import floor, inf
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsim.core.memory import format_size as shown_size
from fedsim.core.ports import Array
from fedsim.core.tables import listing
from fedsim.core.text import format_number, quantity
from fedsim.problems import ProgramLoss, ProgramProblem
from fedsim.problems.heterogeneity import label_test, size_sentence
from fedsim.protocol.secrecy import SecretMethod
from fedsim.results.record.manifest import EVALUATOR
from fedsim.results.record.scenarios import NOTHING, differing, flat, format_value
from fedsim.running.probe import COSTS, Opening, RoundCost, group_costs, members_of
from fedsim.scenario import Plan, Scenario
from fedsim.scenario.building import Job
from fedsim.scenario.building.budgets import vector_memory
from fedsim.scenario.building.load import load_of, why_apart
from fedsim.scenario.building.round_completion import GIVE_UP, MANY, relays_of, slowest
from fedsim.wire import HEADER_BITS, Dense

_HEADS = ("clients", "device", "radio", "samples")
_COSTS = ("  bits down", "  bits up", "  download", "  compute", "  upload", "  energy")
_UNITS = ("bit", "bit", "s", "s", "s", "J")  # of the same, in the order of `COSTS`


def job_table(job: Job, opening: Opening) -> Group:
    """Return the tables of a job: sizes, method, and the costs of its first rounds.

    Args:
        job: the job.
        opening: its first rounds, from `fedsim.running.probe`.
    """
    groups = range(len(job.groups))
    kinds = [_kind_of_client(job, number) for number in groups]
    rows = list(zip(_HEADS, *kinds, strict=True))
    costs = group_costs(job, opening)
    for number in range(1, len(opening.rounds) + 1):
        rows.append((f"{_unit_of_progress(job)} {number}", *["" for _ in groups]))
        rows += zip(_COSTS, *_by_group(costs[costs["round"] == number]), strict=True)
    if not np.isnan(opening.shares).all():
        rows.append(("  battery", *[_drain(job, each, opening) for each in groups]))
    table = listing(
        f"{job.variant.name}: {job.algorithm.kind}, {job.clients} clients",
        ("a client of", *[f"group {number}" for number in groups]),
        rows,
    )
    lines = [*_facts(job), *_totals(job, opening), *_batteries(job, opening)]
    return Group(table, Text("\n".join(lines)), Text(""))


IN_FULL = 6
"""Largest number of variants that are all described; of more, only the first one is."""

_MOST_KINDS = 4
"""Number of pairs of device and radio that are named on one line, and of groups that differ."""

_MOST_DIFFERENCES = 3
"""Number of settings that are named in which a group differs from another of its kind."""


def overview(
    jobs: Sequence[Job], openings: Mapping[str, Opening], models: Sequence[tuple[str, str]]
) -> Table:
    """Return the settings of all variants, one row per key; rows of one variant have its name.

    Args:
        jobs: one per variant.
        openings: their first rounds by variant, from `fedsim.running.probe`.
        models: further rows, such as the errors of network models: key and text.
    """
    described = jobs if len(jobs) <= IN_FULL else jobs[:1]
    variants: dict[str, dict[str, list[str]]] = {}  # key -> text -> variants
    for job in described:
        for key, text in _settings(job, openings[job.variant.name]):
            variants.setdefault(key, {}).setdefault(text, []).append(job.variant.name)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for key, texts in variants.items():
        for number, (text, names) in enumerate(texts.items()):
            prefix = "" if len(names) == len(jobs) else f"{', '.join(names)}: "
            table.add_row("" if number else key, escape(f"{prefix}{text}"))
    for key, text in models:
        table.add_row(escape(key), escape(text))
    return table


def _settings(job: Job, opening: Opening) -> Iterator[tuple[str, str]]:
    """Yield the settings that matter most: key and text."""
    rows, test = job.problem.rows, job.problem.test
    spread = f"{rows.min():,}" if rows.min() == rows.max() else f"{rows.min():,} to {rows.max():,}"
    held = f", {test.rows:,} for testing" if test else ""
    text = f"{rows.sum():,} samples over {len(rows):,} clients, {spread} each"
    yield "data", f"{text} ({describe_partition(job)}){held}"
    for sentence in differences_of_clients(job):
        yield "", sentence
    yield "fleet", _fleet(job)
    for sentence in islice(_group_differences(job), _MOST_KINDS):
        yield "", sentence
    yield "model", _model(job)
    if not isinstance(job.problem, ProgramProblem):  # only the clients can evaluate their losses
        yield "objective", _objective(job)
    yield "optimum", _optimum(job)
    if job.parameters:
        yield "parameters", _parameters(job)
    yield from _special(job)
    for text in _batteries(job, opening):
        yield "battery", text
    if opening.ended:
        yield "end", f"the run ends after these rounds: {opening.ended}"


def differences_of_clients(job: Job) -> Iterator[str]:
    """Yield differences in size and labels of clients that the data describes, and fits to them."""
    problem = job.problem
    if isinstance(problem, ProgramProblem) or problem.naming.missing is None:
        return
    if len(problem.rows) > 1:
        yield size_sentence(problem.rows)
        if (test := label_test(problem.labels, problem.rows)) is not None:
            yield str(test)
    if problem.naming.fitted:
        yield problem.naming.fitted


def _fleet(job: Job) -> str:
    """Return the devices and radios of the clients, with their numbers."""
    sizes: dict[str, int] = {}
    for number, group in enumerate(job.groups):
        kind = f"{group.device.kind} over {group.radio.kind}"
        sizes[kind] = sizes.get(kind, 0) + len(members_of(job, number))
    parts = [f"{size:,} x {kind}" for kind, size in sizes.items()]
    more = len(parts) - _MOST_KINDS
    return ", ".join(parts[:_MOST_KINDS]) + (f", and {more} more kinds" if more > 0 else "")


def _group_differences(job: Job) -> Iterator[str]:
    """Yield for each group what its settings are, where another of its device and radio differs."""
    groups = job.scenario.model_dump(mode="json", include={"fleet"})["fleet"]
    first: dict[tuple[str, str], int] = {}
    for number, group in enumerate(groups):
        kind = group["device"]["kind"], group["radio"]["kind"]
        base = first.setdefault(kind, number)
        values = [
            each
            for key in dict.fromkeys([*groups[base], *group])
            if key != "count"
            for each in differing(groups[base].get(key), group.get(key), key)
        ]
        parts = [
            f"{key} {format_value(now)} instead of {format_value(before)}"
            for key, before, now in values[:_MOST_DIFFERENCES]
        ]
        more = len(values) - len(parts)
        parts += [f"and {more} more differences"] if more else []
        if parts:
            clients = f"{len(members_of(job, number)):,} of the {kind[0]} over {kind[1]}"
            yield f"group {number}, {clients}: {', '.join(parts)} (group {base})"


def _as_written(value: object) -> str:
    """Return a parameter, blocks and lists on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_as_written(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_written, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parameters(job: Job) -> str:
    return ", ".join(f"{name} = {_as_written(value)}" for name, value in job.parameters.items())


def _model(job: Job) -> str:
    bits = Dense.of(np.zeros(job.sent_values), job.scenario.wire.values).bits
    values = job.scenario.wire.values.value  # noqa: PD011 - the name of a format
    return (
        f"{job.sent_values:,} values, sent as {values}: {bits:,} bits, and a header of"
        f" {HEADER_BITS} bits"
    )


def _optimum(job: Job) -> str:
    if job.reference is None:
        return f"none: {job.infeasible}" if job.infeasible else "not known"
    value = format_number(job.reference.value, ".10g")
    title = job.reference.title.removeprefix("optimum").strip()
    return f"{title} {value}, by {job.reference.method}".strip()


def _special(job: Job) -> Iterator[tuple[str, str]]:
    """Yield settings that most scenarios lack: key and text."""
    if job.scenario.counting == "iterates":
        text = "each round is evaluated with the model before its update (counting: iterates)"
        yield "counting", text
    if job.local is not None:
        yield "local", job.local.description
    if isinstance(method := job.setup.algorithm, SecretMethod):
        asked = job.participation.asked or job.clients
        plain = Dense.of(np.zeros(job.sent_values), job.scenario.wire.values).bits
        yield "secrecy", method.describe(asked, plain)
    rows, dimension = job.problem.rows.tolist(), job.problem.dimension
    yield from job.algorithm.work_notes(rows, dimension, job.sent_values)
    yield from _rule(job)
    if (law := job.scenario.infrastructure) is not None:
        power, per_bit = quantity(law.pue * law.share * law.idle, "W"), quantity(law.per_bit, "J")
        text = f"{law.kind}: the server takes {power} (idle power, share and PUE), the network"
        yield "infrastructure", f"{text} {per_bit} per bit; in separate columns"
    if size := vector_memory(job.scenario, job.clients, job.problem.dimension):
        text = (
            "the server stores one EF21 state per client (wire.down.error_feedback: ef21):"
            f" up to {shown_size(size)} of memory, and as much again for the clients"
        )
        yield "memory", text
    if relays := relays_of(job.deployment):
        many = "1 client forwards" if len(relays) == 1 else f"{len(relays)} clients forward"
        yield "relays", f"{many} messages of other clients, at the cost of radio and battery"


def _rule(job: Job) -> Iterator[tuple[str, str]]:
    """Yield what the rule of aggregation costs the server, or a peer, in a round."""
    rule, policy = job.scenario.aggregation, job.participation
    if rule.adds_up or job.scenario.network.peers is not None:
        return
    asked = policy.asked or job.clients
    operations = rule.operations(asked, job.sent_values)
    if operations is not None:
        text = (
            f"{rule.kind} of {asked} vectors takes {quantity(operations, 'flop')} per round at the"
        )
        yield "server", f"{text} server; the server's computation is not charged and takes no time"


def _facts(job: Job) -> Iterator[str]:
    """Yield how the simulator computes a job, and when its server stops waiting."""
    yield _evaluator(job)
    yield _observer(job)
    if any(group.battery is not None or not group.availability.always for group in job.groups):
        yield _notice(job)
    if job.participation.round_timeout < inf:
        yield _round_timeout(job)


def _objective(job: Job) -> str:
    """Return the objective as a formula, and the range of the clients' weights."""
    problem = job.problem
    text = problem.describe_objective()
    if problem.weighting != "sum":
        low, high = (f"{weight:.3g}" for weight in (problem.weights.min(), problem.weights.max()))
        text += f", weights {low}{'' if low == high else f' to {high}'}"
    return f"{text} (problem.weights: {problem.weighting})"


def _notice(job: Job) -> str:
    """Describe when the server notices that a client has left."""
    policy = job.participation
    if policy.heartbeat is not None:
        when = f"at the next heartbeat, every {quantity(policy.heartbeat, 's')}, not charged"
    elif policy.noticed == "deadline":
        when = "only when its round is closed or abandoned"
    else:
        when = "at once"
    return f"the server notices that a client has left {when} (participation.noticed)"


def _evaluator(job: Job) -> str:
    """Describe the evaluator, and whether the scenario sets it."""
    name = job.computing[EVALUATOR]
    by = "" if job.scenario.evaluator else ", chosen automatically"
    text = f"client work runs {_EVALUATORS[name]} (evaluator: {name}{by})"
    if name == "compiled" and job.algorithm.uncompiled:
        return f"{text}; but sequentially here, since {job.algorithm.uncompiled}"
    load = None if job.scenario.evaluator else load_of(job.problem, job.algorithm, job.scenario)
    apart = why_apart(job.problem, load) if load and name == "one-by-one" else None
    return f"{text}; it cannot be vectorised over clients: {apart}" if apart else text


_EVALUATORS = {
    "one-by-one": "sequentially",
    "compiled": "in compiled kernels, many clients at once",
    "vmap": "vectorised over clients",
}


def _observer(job: Job) -> str:
    """Describe the observer's share of all computation; a value costs half a gradient."""
    rows, every = [loss.rows for loss in job.problem.losses], job.every
    cohort = job.scenario.participation.among(len(rows)).wanted
    sampled = 1.0 if cohort is None else cohort / len(rows)
    clients = sampled * sum(job.algorithm.samples_per_round(external) for external in rows)
    observing = sum(rows) / 2 / every
    each = "the model of every round" if every == 1 else f"one model in {every}, and the last"
    share = format_number(observing / (observing + clients), ".0%")
    return f"the observer evaluates {each}: {share} of all computation (observe.every)"


def _round_timeout(job: Job) -> str:
    """Describe the round timeout, and its derivation if it was not configured."""
    text = (
        "a round with too few replies is abandoned after"
        f" {quantity(job.participation.round_timeout, 's')} (participation.give_up"
    )
    if job.scenario.participation.give_up is not None:
        return f"{text})"
    last = slowest(job)
    return (
        f"{text}, by default: {MANY} times the shortest round of the slowest client,"
        f" {quantity(last.seconds, 's')} of {last.name}, and at least {GIVE_UP / 60:g} min)"
    )


def _cohort_noun(job: Job) -> str:
    """Return the unit of `cohort`: clients, or with gateways messages down."""
    return "messages down to clients and gateways" if job.tiers else "clients"


def _totals(job: Job, opening: Opening) -> Iterator[str]:
    """Yield the costs of each of the first rounds for all clients together."""
    between_peers = job.setup.overlay is not None
    for number, cost in enumerate(opening.rounds, 1):
        spent = cost.traffic
        bits = f"{quantity(spent.bits_down, 'bit')} down, {quantity(spent.bits_up, 'bit')} up"
        if between_peers:
            bits = f"{quantity(spent.bits_up, 'bit')} sent"
        yield (
            f"{_unit_of_progress(job)} {number}, all clients: {quantity(cost.seconds, 's')}, "
            f"{quantity(spent.joules, 'J')}, {bits}, {spent.cohort} {_cohort_noun(job)}"
            f"{_beside_the_rows(job, cost)}"
        )
    if opening.ended:
        yield f"the run ends there: {opening.ended}"


def _beside_the_rows(job: Job, cost: RoundCost) -> str:
    """Return why total bits differ from the sum of the table's rows; empty if they do not."""
    if job.tiers:
        return "; a gateway's bits count both hops"
    if job.scenario.network.broadcast == "cell":
        return "; a broadcast counts once here, but once per receiver in the table"
    columns = ["bits_up"] if job.setup.overlay is not None else ["bits_up", "bits_down"]
    rows = int(cost.clients[columns].to_numpy().sum())
    totals = cost.traffic.as_dict()
    if sum(totals[each] for each in columns) == rows:
        return ""
    return "; the table excludes messages lost, retransmitted or in transit"


def _batteries(job: Job, opening: Opening) -> Iterator[str]:
    """Yield the estimated round after which the first client takes no part, for its battery."""
    first = int(np.argmin(opening.lasts))
    if opening.lasts[first] < inf:
        group = job.groups[job.members[first]]
        turn, number = _unit_of_progress(job), len(opening.rounds)
        yield (
            f"if every {turn} cost as much as {turn} {number}, the first client"
            f" ({group.device.kind} over {group.radio.kind}) would leave after"
            f" {floor(opening.lasts[first]):,} {turn}s, with its battery below the threshold, if it"
            " is not charged"
        )


def _unit_of_progress(job: Job) -> str:
    """Return the unit of progress: a round, or an update of an asynchronous server."""
    return "update" if job.participation.asynchronous else "round"


def _kind_of_client(job: Job, number: int) -> tuple[str, ...]:
    """Return the attributes of a group's clients."""
    members = members_of(job, number)
    rows = [job.problem.losses[client].rows for client in members if client < job.clients] or [0]
    return (
        str(len(members)),
        job.groups[number].device.kind,
        job.groups[number].radio.kind,
        f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}",
    )


def _by_group(costs: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """Yield the costs of a round per client of each group, in the order of `COSTS`."""
    for row in costs.to_dict("records"):
        yield tuple(quantity(row[name], unit) for name, unit in zip(COSTS, _UNITS, strict=True))


def _drain(job: Job, number: int, opening: Opening) -> str:
    """Return the mean share of a battery that the last of the first rounds takes."""
    shares = opening.shares[members_of(job, number)]
    return (
        "mains"
        if np.isnan(shares).all()
        else f"{format_number(100 * float(shares.mean()), '.2g')} %"
    )


# The number of samples of each client of a job, as a human-readable table.

_FEW_CLIENTS = 8
"""Largest number of clients with a column each in the table of the split."""

_FEW_LABELS = 20
"""Largest number of distinct labels that count as classes, not as values of a regression."""


def split_table(job: Job) -> Table:
    """Return the number of samples and, with few labels, the share of each label per client.

    With many clients, the columns are groups of the fleet, with minimum, median and maximum.
    """
    rows = job.problem.rows
    if len(rows) <= _FEW_CLIENTS:
        columns = {f"client {m}": np.array([m]) for m in range(len(rows))}
    else:
        members = job.deployment.members.numbers()
        groups = range(len(job.deployment.groups))
        columns = {f"group {g}": np.flatnonzero(members == g) for g in groups}
    lines = [("samples", *[_range(rows[members]) for members in columns.values()])]
    external = isinstance(job.problem, ProgramProblem)  # only the clients have the labels
    for label, shares in () if external else _label_shares(job.problem.labels, rows):
        cells = [_range(np.rint(100 * shares[members]), " %") for members in columns.values()]
        lines.append((f"label {label:g}", *cells))
    test = job.problem.test
    held = f", {test.rows:,} for testing" if test else ""
    return listing(
        f"{describe_partition(job)}: {rows.sum():,} samples over {len(rows):,} clients{held}",
        ("min / median / max" if len(rows) > _FEW_CLIENTS else "", *columns),
        lines,
    )


def describe_partition(job: Job) -> str:
    """Describe the origin of clients' samples: a split, or the clients' own programs."""
    problem = job.scenario.problem
    if isinstance(problem.loss, ProgramLoss):
        return f"clients of {problem.loss.kind}"
    return f"split {problem.split.kind}"


def _label_shares(labels: Array, rows: NDArray[np.int_]) -> Iterator[tuple[float, Array]]:
    """Yield each label with its share of every client's samples, shape (M,), if they are few.

    Args:
        labels: the labels of all samples, ordered by client.
        rows: the number of samples of each client, shape (M,).
    """
    distinct, kinds = np.unique(labels, return_inverse=True)
    if len(distinct) > _FEW_LABELS:
        return
    owners = np.repeat(np.arange(len(rows)), rows)
    counts = np.bincount(owners * len(distinct) + kinds, minlength=len(rows) * len(distinct))
    for label, external in zip(distinct, counts.reshape(len(rows), -1).T, strict=True):
        yield float(label), external / rows


def _range(figures: NDArray[Any], unit: str = "") -> str:
    """Return minimum, median and maximum, or one number if they are equal."""
    least, middle, most = (
        format_number(figure, ".0f") for figure in np.percentile(figures, (0, 50, 100))
    )
    return f"{least}{unit}" if least == most else f"{least} / {middle} / {most}{unit}"


# The values in which the variants of a plan differ.

LEFT_OUT = (
    "Not included: computation and energy of server and observer, and anything else the devices do."
)

LEFT_OUT_BESIDE = (
    "Not included: computation time of the server, the observer, and anything else the devices do."
)
"""The same if server and network are counted."""

_MANY = 6  # most values that are shown per variant


def differences(plan: Plan) -> Table:
    """Return the values in which each variant differs from the first one."""
    first, *others = plan.variants
    rows = [(first.name, "")]
    for variant in others:
        plain = _plain(variant.scenario)
        values = dict.fromkeys(
            f"no {_absent(key, plain)}" if seen == NOTHING else f"{key}: {format_value(seen)}"
            for key, seen in _written_differences(first.scenario, variant.scenario)
        )
        more = [f"and {len(values) - _MANY} more"] if len(values) > _MANY else []
        rows.append((variant.name, ", ".join([*list(values)[:_MANY], *more]) or "nothing"))
    return listing("", ("variant", f"differs from {first.name} in"), rows)


def _written_differences(first: Scenario, other: Scenario) -> Iterator[tuple[str, object]]:
    """Yield key and value of differences that the scenario states, and no defaults.

    A block of another kind differs in its kind and the keys that are given; what the first one's
    block has beside that is not repeated.
    """
    values = list(differing(_plain(first), _plain(other)))
    given, before = _given(other), _given(first)
    changed = tuple(key.removesuffix("kind") for key, *_ in values if key.endswith(".kind"))
    stated = [
        (key, now)
        for key, _, now in values
        if _is_given(key, given) or (_is_given(key, before) and not key.startswith(changed))
    ]
    yield from stated or [(key, now) for key, _, now in values]


def _given(scenario: Scenario) -> set[str]:
    """Return the keys that a scenario states, defaults left out."""
    stated = scenario.model_dump(mode="json", exclude={"variants", "sweep"}, exclude_unset=True)
    return {key for key, _ in flat(stated)}


def _is_given(key: str, given: set[str]) -> bool:
    return key in given or any(each.startswith(f"{key}.") for each in given)


def _absent(key: str, scenario: object) -> str:
    """Return the outermost block with a key that a scenario lacks.

    >>> _absent("network.wifi.width", {"network": {"wifi": None}})
    'network.wifi'
    """
    path: list[str] = []
    for name in key.split("."):
        path.append(name)
        if not isinstance(scenario, Mapping) or scenario.get(name) is None:
            break
        scenario = scenario[name]
    return ".".join(path) if isinstance(scenario, Mapping) else key


def _plain(scenario: Scenario) -> object:
    return scenario.model_dump(mode="json", exclude={"variants", "sweep"})
