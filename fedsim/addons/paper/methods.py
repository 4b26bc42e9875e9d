"""The methods paragraph: a description of the simulations, from manifests and scenarios of runs.

It is composed as plain text with citations such as `[@li2020fedprox]`, and converted to Markdown
and LaTeX. It contains names and paths of users, so everything but citations is escaped.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedsim.addons.paper.bibliography import (
    SIMULATOR,
    Publication,
    of_algorithm,
    of_constants,
    of_wire,
    unique,
)
from fedsim.addons.paper.settings import chosen
from fedsim.algorithms import ALGORITHMS
from fedsim.results.analysis.compare.pairwise import fewest_seeds, interval_level
from fedsim.results.analysis.latex import latex_prose, markdown_text
from fedsim.results.record.regimes import median_errors
from fedsim.results.record.scenarios import (
    NOTHING,
    differing,
    flat,
    format_value,
    group_of,
    tiers_of,
)
from fedsim.results.report.page import messages_of
from fedsim.results.report.study import ReportedStudy

_CITED = re.compile(r"(?: )?\[@([^\]]+)\]")

_RADIO = {
    "up": "{} up",
    "down": "{} down",
    "latency": "latency {}",
    "energy_up": "{} sent",
    "energy_down": "{} received",
    "base": "{} while bits flow",
    "promotion_power": "{} promotion",
    "promotion_time": "promotion of {}",
    "tail_power": "{} tail",
    "tail_time": "tail of {}",
}
"""Fields of a radio and their texts; fields that are zero are left out."""

_NOTHING = {"0 s", "0 W", "0 J/bit", "None", "null", "none", "0 %"}

_FITTED = {
    "all": "the training rows of all clients, an exchange that is not charged",
    "exchange": "the training rows of all clients, whose exchange in the first round is charged",
    "clients": "each client's own training rows",
}
"""The rows on which the preprocessing of a table is fitted, by `data.fit`."""

_LIBRARIES = ("numpy", "scipy", "simpy")


def references(study: ReportedStudy) -> list[Publication]:
    """Return the publications of all methods, compressors and constants of a study."""
    publications: list[Publication] = []
    for run in study.variants.values():
        scenario = run.scenario
        publications += of_algorithm(scenario["algorithm"])
        publications += [
            publication for way in ("up", "down") for publication in of_wire(scenario["wire"][way])
        ]
        for group in (*scenario["fleet"], *tiers_of(scenario)):
            publications += [
                publication for part in _PARTS for publication in of_constants(group[part], part)
            ]
    return unique(publications)


_PARTS = ("device", "radio")


def methods(study: ReportedStudy) -> str:
    """Return the paragraph as plain text with citations."""
    own = chosen(study.first.scenario)
    parts = (
        _study(study),
        _variants(study),
        _problem(study, own),
        _fleet(study),
        _tiers(study.first.scenario),
        _wire(study),
        _network(study),
        _rounds(study.first.scenario, own),
        _statistics(study),
        _versions(study),
    )
    return " ".join(text for part in parts for text in part) + "\n"


def as_latex(text: str) -> str:
    r"""Return a paragraph in LaTeX.

    >>> print(as_latex("CHB [@chen2020chb; @li] at 5 %"))
    CHB~\cite{chen2020chb,li} at 5 \%
    """
    parts = _CITED.split(text)
    texts = (
        rf"~\cite{{{part.replace('@', '').replace('; ', ',')}}}"
        if number % 2
        else latex_prose(part)
        for number, part in enumerate(parts)
    )
    return "".join(texts) + ("\n" if text.endswith("\n") else "")


def as_markdown(text: str) -> str:
    r"""Return a paragraph in Markdown, with citations as Pandoc reads them.

    >>> print(as_markdown("CHB [@chen2020chb; @li] of <b>"))
    CHB [@chen2020chb; @li] of \<b\>
    """
    parts = _CITED.split(text.rstrip("\n"))
    texts = (
        f" [@{part}]" if number % 2 else markdown_text(part) for number, part in enumerate(parts)
    )
    return "".join(texts) + ("\n" if text.endswith("\n") else "")


def digest(study: ReportedStudy) -> str:
    """Return one SHA-256 of all event logs, from the hashes in the runs' manifests.

    It is the hash of the lines "VARIANT/seed-N HASH", in the order of the study.
    """
    lines = (
        f"{run.variant}/seed-{run.seed} {run.manifest['events']['sha256']}\n" for run in study.runs
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _cite(references_: Sequence[Publication]) -> str:
    keys = "; ".join(dict.fromkeys(f"@{reference.key}" for reference in references_))
    return f" [{keys}]" if keys else ""


def _study(study: ReportedStudy) -> Iterator[str]:
    version = study.first.manifest["versions"]["fedsim"]
    yield (
        f"All results are from fedsim {version} [@{SIMULATOR}], a discrete-event simulator of"
        " federated optimisation in which the encoded size of every message sets its duration and"
        " its energy."
    )


def _variants(study: ReportedStudy) -> Iterator[str]:
    """Yield the method of the first variant, and the differences of the others from it."""
    first = study.first
    sentences = [_method(_name(study, first.variant), first.scenario["algorithm"])]
    for variant, run in study.variants.items():
        if variant == first.variant:
            continue
        name, block = _name(study, variant), run.scenario["algorithm"]
        other = block["kind"] != first.scenario["algorithm"]["kind"]
        changes = list(_changes(first.scenario, run.scenario, whole=other))
        if other:
            text = _method(name, block)
            text += f", and {_and(changes)}" if changes else ""
        else:
            text = f"{name} is {_name(study, first.variant)}"
            text += f" with {_and(changes)}" if changes else " again"
        sentences.append(text)
    yield f"{'; '.join(sentences)}."


def _name(study: ReportedStudy, variant: str) -> str:
    """Return the label of a variant without its method, which the sentence has."""
    return study.labels[variant].partition(" (")[0]


def _changes(first: Mapping[str, Any], own: Mapping[str, Any], *, whole: bool) -> Iterator[str]:
    """Yield what a variant has in place of the first one's, as nouns of a sentence.

    Args:
        first: the scenario of the first variant.
        own: that of the variant.
        whole: whether its method is another one, which is described apart.
    """
    if own["wire"] != first["wire"]:
        if own["wire"]["values"] != first["wire"]["values"]:
            yield f"{own['wire']['values']} values"
        yield from list(_compressed(own["wire"])) or ["messages that are not compressed"]
    fleets = [[scenario.get(key) for key in ("fleet", "tiers")] for scenario in (first, own)]
    if fleets[0] != fleets[1]:
        yield "another fleet, as stated below"
    for key, before, value in differing(first, own):
        block, _, rest = key.partition(".")
        if block in {"wire", "fleet", "tiers"} or (block == "algorithm" and whole):
            continue
        trivial = block == "algorithm" and _is_trivial(own["algorithm"]["kind"], rest, value)
        if trivial or value in (NOTHING, None):
            if before not in (NOTHING, None, False):
                yield f"no {_words(key)}"
        elif before in (NOTHING, None):
            yield _fact(_words(key), value)
        else:
            yield f"{_fact(_words(key), value)} instead of {format_value(before)}"


def _words(key: str) -> str:
    """Return the words for a key of a scenario in a sentence.

    >>> _words("participation.kind"), _words("algorithm.local_steps")
    ('participation', 'local steps')
    """
    names = key.removeprefix("algorithm.").removesuffix(".kind")
    return names.replace(".", " ").replace("_", " ")


_COUNTED = {"local steps", "local epochs", "epochs", "rounds", "seeds"}
"""Words that stand behind their number."""


def _fact(words: str, value: object) -> str:
    """Return a parameter and its value as a noun.

    >>> _fact("local steps", 10), _fact("batch", 16), _fact("step size", 0.1), _fact("x", True)
    ('10 local steps', 'batches of 16', 'step size 0.1', 'x')
    """
    if value is True:
        return words
    if words in _COUNTED:
        return f"{format_value(value)} {words.removesuffix('s') if value == 1 else words}"
    return f"batches of {value}" if words == "batch" else f"{words} {format_value(value)}"


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _is_trivial(kind: str, key: str, value: object) -> bool:
    """Return whether a parameter of a method says nothing: it is off, or a word left as it is."""
    if value is None or value is False or value == []:
        return True
    model = ALGORITHMS.own.get(kind)
    field = None if model is None else model.model_fields.get(key)
    return isinstance(value, str) and field is not None and value == field.default


def _method(label: str, block: Mapping[str, Any]) -> str:
    facts = [
        _fact(_words(key), value)
        for key, value in block.items()
        if key != "kind"
        and not isinstance(value, dict | list)
        and not _is_trivial(block["kind"], key, value)
    ]
    details = f" with {_and(facts)}" if facts else ""
    method = "" if label == block["kind"] else f" runs {block['kind']}"
    return f"{label}{method}{_cite(of_algorithm(block))}{details or ' with its defaults'}"


def _problem(study: ReportedStudy, own: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences on the problem; `own` are the settings that are no defaults."""
    first = study.first
    problem = first.scenario["problem"]
    samples = int(first.rows(study.clients)["samples"].sum())
    clients = int(first.summary["clients"])
    values = f"{int(first.summary['dimension']):,} values"
    yield f"The model is {_model(problem['loss'], own)} ({values})."
    yield f"It is trained on {_source(study)}."
    data = problem.get("data") or {}
    if steps := data.get("preprocess"):
        yield f"Before training, {_and([_step(step) for step in steps])}."
    held_out = (problem.get("test") or {}).get("fraction")
    if held_out:
        yield f"Of the samples, {100 * float(held_out):g} % are held out for tests."
    rest = "other " if held_out else ""
    to = f"{clients:,} client{'s' if clients > 1 else ''}"
    split = problem["split"]
    yield (
        f"The {rest}{samples:,} samples are divided over {to} by the {split['kind']} split"
        f"{_split(split, own)}."
        if split
        else f"The {rest}{samples:,} samples belong to {to}, as given in the data."
    )
    if rows_fitted := _FITTED.get(str(data.get("fit"))):
        yield f"Missing values are filled and features scaled by what is fitted on {rows_fitted}."


_STEPS = {
    "standardise": "each feature is scaled to mean 0 and variance 1",
    "unit-range": "each feature is scaled to [0, 1]",
    "max-abs": "each feature is divided by its largest magnitude",
    "unit-rows": "each sample is scaled to Euclidean norm 1",
    "intercept": "a column of ones is appended",
    "first": "only the first {first} features are kept",
    "divide": "all features are divided by {divide:g}",
}
"""What the steps of preprocessing do."""


def _step(step: str | Mapping[str, Any]) -> str:
    """Return what a step of preprocessing does.

    >>> _step({"divide": 255})
    'all features are divided by 255'
    """
    if isinstance(step, str):
        return _STEPS[step]
    return _STEPS[next(iter(step))].format_map(step)


def _source(study: ReportedStudy) -> str:
    """Return the name of the data, and of the package they come with."""
    data = study.first.scenario["problem"].get("data") or {}
    return f"{study.data} (scikit-learn)" if data.get("kind") == "sklearn" else study.data


_MODELS = {
    "mlp": "a network with one hidden layer of {hidden} units",
    "logistic": "logistic regression",
    "softmax": "multinomial logistic regression",
    "squared": "linear regression by least squares",
}
"""What the most common losses train."""


_COMMON = {"clients", "least"}
"""Parameters that all splits have; a default one is left out."""


def _split(split: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """Return the parameters of a split, also default ones: they decide how clients differ.

    >>> _split({"kind": "dirichlet", "alpha": 0.5, "least": 1}, {"problem.split.kind": "dirichlet"})
    ' (alpha 0.5)'
    """
    values = {f"problem.split.{key}": format_value(value) for key, value in flat(split)}
    shown = {
        key: text
        for key, text in values.items()
        if key in own or key.rpartition(".")[2] not in _COMMON
    }
    return _details(shown, "problem.split")


def _model(loss: Mapping[str, Any], own: Mapping[str, str]) -> str:
    """Return the model and the parameters of its loss.

    >>> own = {"problem.loss.hidden": "1024", "problem.loss.l2": "0.1"}
    >>> _model({"kind": "mlp", "hidden": 1024, "l2": 0.1}, own)
    'a network with one hidden layer of 1024 units (l2 0.1)'
    """
    name = _MODELS.get(loss["kind"], f"that of the loss {loss['kind']}")
    rest = {key: text for key, text in own.items() if f"{{{key.rpartition('.')[2]}}}" not in name}
    return f"{name.format_map(loss)}{_details(rest, 'problem.loss')}"


def _details(own: Mapping[str, str], block: str) -> str:
    """Return the parameters of a block that differ from their defaults, in brackets if any.

    >>> _details({"problem.split.kind": "dirichlet", "problem.split.alpha": "0.1"}, "problem.split")
    ' (alpha 0.1)'
    """
    facts = [
        f"{_words(key.removeprefix(f'{block}.'))} {text}"
        for key, text in own.items()
        if key.startswith(f"{block}.") and key != f"{block}.kind"
    ]
    return f" ({', '.join(facts)})" if facts else ""


def _fleet(study: ReportedStudy) -> Iterator[str]:
    scenario = study.first.scenario
    if not scenario["fleet"]:
        yield "Clients are ideal: they compute and send in no time and for no energy."
        return
    texts = []
    members = study.first.rows(study.clients)
    for number, count in members.groupby("group", sort=True).size().items():
        group = group_of(scenario, int(str(number)))
        device, radio = group["device"], group["radio"]
        power = ", ".join(
            f"{device[key]}{suffix}"
            for key, suffix in (("speed", ""), ("active", " computing"), ("idle", " at rest"))
            if device.get(key) is not None
        )
        facts = [
            form.format(radio[key])
            for key, form in _RADIO.items()
            if radio.get(key) is not None and str(radio[key]) not in _NOTHING
        ]
        what = "gateways, " if int(str(number)) >= len(scenario["fleet"]) else ""
        texts.append(
            f"{count:,} {what}{device['kind']} ({power}){_cite(of_constants(device, 'device'))}"
            f" over {radio['kind']} ({', '.join(facts)}){_cite(of_constants(radio, 'radio'))}"
            + _aside(group)
        )
    yield f"The fleet is {'; '.join(texts)}."
    others = [
        study.labels[name]
        for name, run in study.variants.items()
        if any(run.scenario.get(key) != scenario.get(key) for key in ("fleet", "tiers"))
    ]
    if others:
        yield f"The fleet of {', '.join(others)} differs as stated."


def _tiers(scenario: Mapping[str, Any]) -> Iterator[str]:
    """Yield the methods of gateways, tier by tier from the clients up."""
    below = "clients"
    for tier in tiers_of(scenario):
        outer = tier["outer"]
        yield (
            f"Each of {tier['count']} gateways runs {tier['rounds']} rounds with the {below} below"
            f" it in each of its rounds of {outer['kind']}{_cite(of_algorithm(outer))}."
        )
        below = "gateways"


def _aside(group: Mapping[str, Any]) -> str:
    """Return a group's battery, availability and loss of packets, as text."""
    text = ""
    battery = group.get("battery")
    if battery:
        capacity = battery.get("capacity") or group["device"].get("battery")
        text += f", on a battery of {capacity}"
        text += f" charged to {battery['charge']}" if battery.get("charge") else ""
    for name, block in (
        ("availability", group.get("availability") or {"kind": "always"}),
        ("packet loss", group["radio"].get("loss") or {"kind": "none"}),
    ):
        if block["kind"] not in {"always", "none"}:
            facts = (f"{k} {v}" for k, v in block.items() if k != "kind" and str(v) not in _NOTHING)
            text += f", {name} {block['kind']} ({', '.join(facts)})"
    return text


def _wire(study: ReportedStudy) -> Iterator[str]:
    """Yield how vectors are encoded, where a variant's own encoding is not stated with it."""
    first = study.first.scenario["wire"]
    ways = _and(list(_compressed(first)) or ["not compressed"])
    alike = all(run.scenario["wire"] == first for run in study.variants.values())
    unless = "" if alike else ", unless stated above"
    yield f"Vectors are sent as {first['values']} values, {ways}{unless}."


_FEEDBACK = {"ef": "error feedback", "ef21": "the error feedback EF21"}


def _compressed(wire: Mapping[str, Any]) -> Iterator[str]:
    """Yield the directions in which messages are compressed, and how."""
    for way, name in (("up", "uploads"), ("down", "downloads")):
        block = wire[way]["compressor"]
        if block["kind"] != "identity":
            facts = (f"{k.replace('_', ' ')} {v}" for k, v in block.items() if k != "kind" and v)
            text = f"{name} compressed by {block['kind']}"
            text += f" ({details})" if (details := ", ".join(facts)) else ""
            feedback = wire[way]["error_feedback"]
            if feedback != "none":
                text += f" with {_FEEDBACK.get(feedback, f'error feedback {feedback}')}"
            yield text + _cite(of_wire(wire[way]))


def _network(study: ReportedStudy) -> Iterator[str]:
    first = study.first
    network = first.scenario["network"]
    server: Mapping[str, Any] = network.get("server") or {}
    facts = [
        f"{name} {server[key]}"
        for key, name in (("uplink", "uplink"), ("downlink", "downlink"), ("latency", "latency"))
        if server.get(key) not in {None, "0 s", "unlimited"}
    ]
    details = f" with a server of {', '.join(facts)}" if facts else ""
    yield f"The network is a {network['topology']}{details}, in the {network['model']} model."
    messages = messages_of(first.rows(study.rounds))
    yield from median_errors(network, first.scenario["fleet"], messages)


def _rounds(scenario: Mapping[str, Any], own: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences on rounds; `own` are the settings that are no defaults."""
    silence = scenario["silence"]
    if silence["kind"] == "beacon":
        yield "A client that leaves out its update sends a beacon, a message of a header alone."
    elif silence["kind"] == "deadline":
        yield "A client that leaves out its update sends nothing."
        yield f"A round ends {silence['after']} after its broadcast."
    else:
        yield f"Clients that leave out their updates follow the rule {silence['kind']}."
    policy = scenario["participation"]["kind"]
    who = "All clients take part in every round" if policy == "full" else ""
    yield f"{who or f'Client sampling is {policy}'}{_details(own, 'participation')}."
    if scenario["counting"] == "iterates":
        yield "The figures of a round are those of the model before its update."
    ends = [
        f"{_words(key.removeprefix('stop.'))} {text}"
        for key, text in own.items()
        if key.startswith("stop.")
    ]
    if ends:
        yield f"A run stops at the first of these bounds: {', '.join(ends)}."


def _statistics(study: ReportedStudy) -> Iterator[str]:
    seeds = sorted({run.seed for run in study.runs})
    comparison = study.comparison
    if len(seeds) == 1:
        yield f"Every variant is run under the seed {seeds[0]}."
    else:
        consecutive = seeds == list(range(seeds[0], seeds[-1] + 1))
        every = f"{seeds[0]} to {seeds[-1]}" if consecutive else ", ".join(map(str, seeds))
        least = fewest_seeds(comparison.confidence)
        level = interval_level(comparison.confidence, len(seeds))
        yield (
            f"Every variant is run under {len(seeds)} seeds ({every}). Runs of one seed share data,"
            " network and availability, so variants are compared within seeds. We report the"
            f" geometric mean of the paired cost ratios with its {level:g} % interval. The interval"
            " contains that of Student's t on the logarithms and that of the sign test."
        )
        if len(seeds) < least:
            yield (
                f"With fewer than {least} seeds it contains the ratios of all seeds, and a t"
                " interval of a fifth of the error probability."
            )
        yield (
            "If only one of two runs reached the target, ratios are over the seeds in which both"
            " did, and the sign test counts a miss as the higher cost. P-values are corrected for"
            " all pairs of variants (Holm). Costs within"
            f" {100 * comparison.practical:g} % count as the same."
        )
    goals = [case.target.words for case in comparison.cases]
    yield f"Reported is the {' and the '.join(goals)}."


def _versions(study: ReportedStudy) -> Iterator[str]:
    manifests = [run.manifest for run in study.runs]
    pythons = sorted({str(manifest["python"]) for manifest in manifests})
    versions = [
        f"{name} {' and '.join(sorted({str(it['versions'][name]) for it in manifests}))}"
        for name in _LIBRARIES
        if all(name in manifest["versions"] for manifest in manifests)
    ]
    computing = manifests[0]["computing"]
    yield (
        f"The {len(manifests)} runs were made with Python {' and '.join(pythons)},"
        f" {', '.join(versions)}, the evaluator {computing['evaluator']} in"
        f" {computing['precision']}; the SHA-256 digest of their event logs is"
        f" {digest(study)[:16]}."
    )
