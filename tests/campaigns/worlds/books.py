"""The auditor's books: order, messages, bits and joules, added up from the log's rows alone."""

from collections import Counter
from collections.abc import Iterator
from math import fsum, isfinite

from fedsim.addons.conformance.energy import bodies_of, promises

from .evidence import Evidence, Row, bits, close

KEY = ("round", "message", "payload_bits", "header_bits", "transport_bits", "t")
ROUNDING = 1e-12
"""What a clock's rounding may make of a span, as a share of the time."""


def order(run: Evidence) -> Iterator[str]:
    """Rows are numbered, time never runs back, nothing is after the stop."""
    if [row["seq"] for row in run.events] != list(range(len(run.events))):
        yield "the rows are not numbered from 0"
    before = 0.0
    for row in run.events:
        t, duration = row["t"], row["duration"]
        if not (isfinite(t) and t >= before):
            yield f"row {row['seq']}: time goes from {before} to {t}"
        if not 0 <= duration <= t + ROUNDING * t:
            yield f"row {row['seq']}: a span of {duration} s ends at {t}"
        before = t
    stops = [row["seq"] for row in run.of_kind("stop")]
    if stops != [len(run.events) - 1]:
        yield f"stop stands in rows {stops} of {len(run.events)}"
    if run.end != run.summary["t"]:
        yield f"the log ends at {run.end}, the summary says {run.summary['t']}"


def _key(row: Row, sender: str, receiver: str | None) -> tuple[object, ...]:
    return (sender, receiver, *(row[column] for column in KEY))


def messages(run: Evidence) -> Iterator[str]:
    """What is received was sent, bit for bit; what was sent is received, lost or in flight."""
    arrived: Counter[tuple[object, ...]] = Counter()
    broadcast: Counter[tuple[object, ...]] = Counter()
    undelivered: Counter[tuple[object, ...]] = Counter()
    for row in run.of_kind("send"):
        if row["detail"] in {"lost", "aborted"}:
            undelivered[_key(row, row["node"], row["peer"])] += 1
        elif row["detail"] is None:
            book = arrived if row["peer"] else broadcast
            book[_key(row, row["node"], row["peer"])] += 1
        elif row["detail"] != "in flight" or row["t"] != run.end:
            yield f"row {row['seq']}: sent, and then {row['detail']} at {row['t']}"
    heard: set[tuple[object, ...]] = set()
    for row in run.of_kind("receive"):
        if row["detail"] is not None:
            if bits(row):
                yield f"row {row['seq']}: a message that was {row['detail']} brought bits"
            continue
        key, to_all = _key(row, row["peer"], row["node"]), _key(row, row["peer"], None)
        if arrived[key]:
            arrived[key] -= 1
        elif broadcast[to_all]:
            heard.add(to_all)
        else:
            yield f"row {row['seq']}: {row['node']} received what nobody sent"
    yield from unmatched(arrived, "was sent and neither received nor lost")
    yield from (
        f"{key}: nobody heard it" for key in broadcast if broadcast[key] and key not in heard
    )
    lost = Counter(_key(row, row["node"], row["peer"]) for row in run.of_kind("lost"))
    yield from unmatched(lost - undelivered, "was lost without being sent")
    yield from unmatched(undelivered - lost, "was sent in vain and is not in a lost row")


def unmatched(book: Counter[tuple[object, ...]], what: str) -> Iterator[str]:
    for key, count in book.items():
        if count > 0:
            yield f"{key}: {what}"


def _cohorts_with_candidates(run: Evidence) -> Iterator[int]:
    """Yield the cohort of each round: candidates, who are asked for their losses, are none yet.

    Those that are chosen hear so. Where no candidate replies none is chosen, and a round of all
    clients has no candidates.
    """
    down = [row for row in run.of_kind("send") if run.goes_down(row)]
    chosen = Counter(row["round"] for row in down if row["message"] == "chosen")
    asked = Counter(row["round"] for row in down)
    for row in run.rounds:
        number = row["round"]
        yield chosen[number] or (row["cohort"] and asked[number])


def traffic(run: Evidence) -> Iterator[str]:
    """The tables' bits and messages are those of the log."""
    sums: Counter[str] = Counter()
    for event in ("send", "retransmit"):
        for row in run.of_kind(event):
            way = "down" if run.goes_down(row) else "up"
            sums[f"bits_{way}"] += bits(row)
            if event == "send" and way == "up":
                sums["transmissions" if row["payload_bits"] else "beacons"] += 1
    if getattr(run.policy, "candidates_asked", False):
        sums["cohort"] = sum(_cohorts_with_candidates(run))
    elif not run.peers and run.scenario.network.broadcast == "unicast":
        sums["cohort"] = sum(map(run.goes_down, run.of_kind("send")))
    else:
        sums["cohort"] = run.summary["cohort"]
    for name in ("cohort", "transmissions", "beacons", "bits_up", "bits_down"):
        if sums[name] != run.summary[name]:
            yield f"{name}: {sums[name]} in the log, {run.summary[name]} in the summary"
        by_rounds = sum(row[name] for row in run.rounds)
        if by_rounds > sums[name] or (ended_with_a_round(run) and by_rounds != sums[name]):
            yield f"{name}: {sums[name]} in the log, {by_rounds} in the table of rounds"


def ended_with_a_round(run: Evidence) -> bool:
    """Say whether nothing can have happened after the last round."""
    rules = {"rounds", "bits", "energy", "patience", *run.scenario.stop.targets}
    return run.reason.partition(":")[0] in rules


_COUNTS = ("silent", "late", "lost", "skipped")
_PARTS = ("compute", "send", "receive", "retransmit", "promotion", "tail")
_SPANS = {"compute": "compute", "send": "send", "receive": "receive", "tail": "tail"}
_SPANS |= {"online": "offline", "charged": "off"}


def clients(run: Evidence) -> Iterator[str]:
    """The table of clients is the log, added up client by client."""
    if [row["client"] for row in run.clients] != run.names:
        yield "the clients are not numbered from 0"
    by_node: dict[str, list[Row]] = {name: [] for name in run.names}
    for row in run.events:
        if row["node"] in by_node:
            by_node[row["node"]].append(row)
    for row in run.clients:
        yield from _client(row, by_node.get(row["client"], []))


def _client(row: Row, mine: list[Row]) -> Iterator[str]:
    def of(event: str) -> list[Row]:
        return [each for each in mine if each["event"] == event]

    sent = of("send")
    expected = {name: len(of(name)) for name in _COUNTS}
    expected["transmissions"] = sum(each["payload_bits"] > 0 for each in sent)
    expected["beacons"] = len(sent) - expected["transmissions"]
    expected["bits_up"] = sum(map(bits, sent))
    expected["bits_down"] = sum(map(bits, of("receive")))
    expected["bits_again"] = sum(map(bits, of("retransmit")))
    for name, value in expected.items():
        if row[name] != value:
            yield f"{row['client']}, {name}: {value} in the log, {row[name]} in the table"
    sizes = {f"{column}_s": (event, "duration") for event, column in _SPANS.items()}
    sizes |= {f"{event}_joules": (event, "joules") for event in _PARTS}
    for name, (event, column) in sizes.items():
        total = fsum(each[column] for each in of(event))
        if not close(total, row[name]):
            yield f"{row['client']}, {name}: {total} in the log, {row[name]} in the table"


def energy(run: Evidence) -> Iterator[str]:
    """Joules are nowhere negative, and add up: by row, by client, by round, at rest."""
    yield from (f"row {row['seq']}: {row['joules']} J" for row in run.events if row["joules"] < 0)
    total = fsum(row["joules"] for row in run.events)
    if not close(total, run.summary["joules"]):
        yield f"joules: {total} in the log, {run.summary['joules']} in the summary"
    by_client = fsum(row["joules"] for row in run.clients)
    if not close(total, by_client):
        yield f"joules: {total} in the log, {by_client} in the table of clients"
    by_round = fsum(row["joules"] for row in run.rounds)
    over = by_round > total or (run.rounds and run.rounds[-1]["t"] == run.end)
    if over and not close(by_round, total):
        yield f"joules: {total} in the log, {by_round} in the table of rounds"
    at_rest = fsum(row["joules"] for row in run.events if row["node"] == "server")
    idle = fsum(row["idle_joules"] for row in run.clients)
    if not close(at_rest, idle):
        yield f"joules at rest: {at_rest} in the log, {idle} in the table of clients"


_VARYING = ("send", "receive", "retransmit", "forward")
"""Spans whose power may change while they last; of the others it is constant."""


def energy_by_round(run: Evidence) -> Iterator[str]:
    """Until a commit a run has spent what its spans have taken by then, as far as the log says.

    Of a message that is open then, that is something between nothing and all of its energy.
    """
    spent = 0.0
    for number, commit in enumerate(run.rounds):
        spent += commit["joules"]
        if number % (len(run.rounds) // 5 + 1):
            continue
        least, most, t = list[float](), list[float](), commit["t"]
        for row in run.events:
            if row["t"] <= t and (row["duration"] or row["t"] < t):
                least.append(row["joules"])
            elif row["event"] in _VARYING or not row["duration"]:
                # A retransmission's span is a share of its message's, which began before it.
                open_ = row["event"] == "retransmit" or row["t"] - row["duration"] <= t
                most.append(row["joules"] if open_ else 0.0)
            else:
                part = max(t - row["t"] + row["duration"], 0.0) / row["duration"]
                least.append(part * row["joules"])
        low, high = fsum(least), fsum([*least, *most])
        if not (low <= spent <= high or close(spent, low, high) or close(spent, high)):
            yield f"round {commit['round']}: {spent} J until {t} s, {low} to {high} J by the log"


def outside(run: Evidence) -> Iterator[str]:
    """What each span costs follows from the laws' powers, and spans cover all time once."""
    bodies = bodies_of(run.scenario, run.below)  # gateways send to clients by no radio
    idle = [row["idle_joules"] for row in run.clients[: run.below]]
    for promise, broken in promises(bodies, run.events, idle):
        yield from (f"{promise}: {text}" for text in broken)


def rest(run: Evidence) -> Iterator[str]:
    """A client draws its idle power while its battery is not empty."""
    for name, group, row in zip(run.names, run.groups, run.clients, strict=True):
        off, since = 0.0, None
        for event in run.events:
            if event["node"] == name and event["event"] in {"depleted", "charged"}:
                if since is not None:
                    off += event["t"] - since
                since = event["t"] if event["event"] == "depleted" else None
        off += 0.0 if since is None else run.end - since
        watts = run.resting_power(group)
        if not close(watts * (run.end - off), row["idle_joules"], watts * run.end):
            wanted = watts * (run.end - off)
            yield f"{name} rests for {wanted} J by its power, {row['idle_joules']} in the table"
