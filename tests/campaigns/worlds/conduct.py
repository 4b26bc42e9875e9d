"""The auditor's other half: what nobody may do, and how runs, rounds and batteries go."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import ceil, inf, isfinite, isnan, nan

from fedsim.protocol.participation import Participation, Rounds, Sample
from fedsim.protocol.silence import DeadlineSilence
from fedsim.protocol.stop_rules import Patience
from fedsim.results.record.summary import end_of

from .books import ROUNDING, ended_with_a_round
from .evidence import Evidence, Row, bits, close

_ACTS = {"compute", "send", "receive", "silent", "sampled", "promotion"}


def presence(run: Evidence) -> Iterator[str]:
    """Who is offline, or has an empty battery, does nothing."""
    away: dict[str, dict[str, float]] = {name: {} for name in run.names}
    for row in run.events:
        node, event = row["node"], row["event"]
        if node not in away:
            continue
        if event in {"offline", "depleted"}:
            if event in away[node]:
                yield f"row {row['seq']}: {node} is {event} twice"
            away[node][event] = row["t"]
        elif event in {"online", "charged"}:
            kind = "offline" if event == "online" else "depleted"
            since = away[node].pop(kind, None)
            if since is None:
                yield f"row {row['seq']}: {node} is {event}, and was not {kind}"
            elif not close(row["t"] - since, row["duration"], row["t"], ROUNDING):
                yield f"row {row['seq']}: {node} was {kind} since {since}"
        elif event == "receive" and row["detail"] and run.peers:
            continue  # what was stored for a node that has gone is given up, which is no act of it
        elif event in _ACTS and any(since < row["t"] for since in away[node].values()):
            yield f"row {row['seq']}: {node} does a {event} while it is away"


def answers(run: Evidence) -> Iterator[str]:
    """A client says one thing a message at most, and after it has received that message."""
    asked: Counter[tuple[str, int]] = Counter()
    said: Counter[tuple[str, int]] = Counter()
    silent: Counter[tuple[str, int]] = Counter()
    arrived: dict[tuple[str, int], float] = {}
    for row in run.events:
        key = row["node"], row["round"]
        if row["node"] == "server" or run.above.get(row["peer"]) == row["node"]:
            continue  # what a server says, or a gateway as one
        if row["event"] == "receive" and row["detail"] is None:
            asked[key] += 1
            arrived.setdefault(key, row["t"])
        elif row["event"] == "silent":
            silent[key] += 1
        elif row["event"] == "send":
            said[key] += 1
            began = row["t"] - row["duration"]
            if began < arrived.get(key, float("inf")) - ROUNDING * row["t"]:
                yield f"row {row['seq']}: {key} answers at {began} what it has not received"
    quiet = isinstance(run.scenario.silence, DeadlineSilence)
    for key in asked | said | silent:
        if said[key] + (silent[key] if quiet else 0) > asked[key]:
            yield f"{key} was told {asked[key]} messages and gave {said[key]} answers"
        if not quiet and silent[key] > said[key]:
            yield f"{key} was silent {silent[key]} times without a beacon"


def spans(run: Evidence) -> Iterator[str]:
    """Nobody computes twice at a time, and an uplink carries one message at a time."""
    busy: dict[tuple[str, str], tuple[float, float]] = {}
    for row in run.events:
        if row["event"] not in {"compute", "send"} or run.goes_down(row):
            continue
        if not row["duration"]:
            continue
        key, began = (row["node"], row["event"]), row["t"] - row["duration"]
        if key in busy and began < busy[key][1] - ROUNDING * row["t"]:
            yield f"row {row['seq']}: {key} is busy from {began}, and until {busy[key][1]} before"
        busy[key] = began, row["t"]


def batteries(run: Evidence) -> Iterator[str]:
    """Charges are shares, and what is in store is what was, and came, and went."""
    for row in run.events:
        charge = row["state_of_charge"]
        if not isnan(charge) and not 0 <= charge <= 1:
            yield f"row {row['seq']}: a charge of {charge}"
    for group, row in zip(run.groups, run.clients, strict=True):
        name, initial = row["client"], row.get("initial_joules", nan)
        if group.battery is None:
            if not isnan(nan if initial is None else initial):
                yield f"{name} has no battery, and {initial} J in it"
            continue
        if not close(row["initial_joules"], group.battery.charge * group.capacity):
            yield f"{name} starts with {initial} J of {group.capacity}"
        yield from _store(row, group.capacity)
        died = sum(each["node"] == name for each in run.of_kind("depleted"))
        if died != row["depletions"]:
            yield f"{name} was depleted {died} times in the log, {row['depletions']} in the table"


def _store(row: Row, capacity: float) -> Iterator[str]:
    """What is in a battery is what was, and came, and went; and its client has had no more."""
    name, first, last = row["client"], row["initial_joules"], row["final_joules"]
    came, went = row["charged_joules"], row["drained_joules"]
    if not close(first + came - went, last, first + came + went):
        yield f"{name}: {first} + {came} - {went} J are {last} J"
    if not -1e-9 * capacity <= last <= capacity * (1 + 1e-9) or min(came, went) < 0:
        yield f"{name} ends with {last} J of {capacity}"
    if row["joules"] > went and not close(row["joules"], went, first + came):
        yield f"{name} spent {row['joules']} J, and its battery gave {went}"


COSTS = ("cohort", "transmissions", "beacons", "bits_up", "bits_down", "joules")


def rounds(run: Evidence) -> Iterator[str]:
    """Rounds are numbered, end where the log says, and gaps are measured from one optimum.

    Round 0 is the start, which is none of the log's and costs nothing.
    """
    committed = run.of_kind("round")
    numbers = [row["round"] for row in run.rounds]
    if numbers != list(range(len(numbers))) or run.summary["rounds"] != len(numbers) - 1:
        yield f"the rounds are {numbers}, of {run.summary['rounds']}"
    spent = {name: run.rounds[0][name] for name in ("t", *COSTS) if run.rounds[0][name]}
    if spent:
        yield f"the start takes {spent}"
    if [(row["round"], row["t"]) for row in committed] != [
        (row["round"], row["t"]) for row in run.rounds[1:]
    ]:
        yield "the table's rounds end at other times than the log's"
    yield from _objectives(run)


def looked_at(run: Evidence, number: int) -> bool:
    """Say whether a round is one whose model is looked at, be it the last one or not."""
    return number % (run.scenario.observe.every or 1) == 0 or number >= run.scenario.stop.rounds


def _objectives(run: Evidence) -> Iterator[str]:
    """Rounds that are looked at, and the last, have one; gaps are measured from one optimum."""
    optima: dict[float, float] = {}
    for row in run.rounds:
        number, objective = row["round"], row["objective"]
        last = number == len(run.rounds) - 1 and end_of(run.summary["status"]).complete
        if not isnan(objective):
            optima[objective] = objective - row["gap"]
        if looked_at(run, number) or last:
            if number and not isfinite(objective):
                yield f"an objective of {objective}"
        elif not isnan(objective) and number < len(run.rounds) - 1:
            yield f"round {number} has an objective, and it was not to be looked at"
    known = [optimum for optimum in optima.values() if not isnan(optimum)]
    for objective, optimum in optima.items():
        if isnan(optimum) or run.scenario.problem.loss.constrained or not _certain(run):
            continue
        if objective - optimum < -1e-6 * max(1.0, abs(objective)):
            yield f"an objective of {objective} is below the optimum {optimum}"
    if known and not close(min(known), max(known), max(map(abs, optima))):
        yield f"gaps are measured from {min(known)} and {max(known)}"


def _certain(run: Evidence) -> bool:
    """Say whether the optimum is one, and not the best value that a local search has found."""
    reference = run.summary["reference"]
    return reference is not None and bool(reference["certified"])


def cohorts(run: Evidence) -> Iterator[str]:
    """No more clients are drawn at a time than the policy says, and nobody twice."""
    for server, policy, count in run.servers:
        own = [row for row in run.of_kind("sampled") if run.above[row["node"]] == server]
        sets = Counter(row["t"] for row in run.of_kind("exchange") if row["node"] == server)
        yield from _cohorts(policy, count, own, sets)


def _cohorts(
    policy: Participation, count: int, sampled: list[Row], sets: Counter[float]
) -> Iterator[str]:
    """Check whom one server has drawn, of so many, beside its exchanges by time."""
    drawn: dict[tuple[int, float], list[str]] = {}
    for row in sampled:
        drawn.setdefault((row["round"], row["t"]), []).append(row["node"])
    if isinstance(policy, Sample):
        size = policy.count or max(1, int((policy.share or 1) * count + 0.5))
        most = min(ceil(policy.over * size * (1 - 1e-12)), count)
        for (number, t), names in drawn.items():
            if len(names) > most * max(sets[t], 1):
                yield f"round {number}: {len(names)} clients are drawn at {t}, of {most} at most"
    elif isinstance(policy, Rounds) and drawn:
        yield "clients are drawn where all take part"
    least = policy.least_charge
    for row in sampled:
        if row["state_of_charge"] < least * (1 - 1e-12):
            yield f"row {row['seq']}: drawn at a charge of {row['state_of_charge']}"


def _deadline(run: Evidence) -> float | None:
    """Return what no exchange may last longer than, s; None where nothing says so."""
    silence, policy = run.scenario.silence, run.policy
    if isinstance(silence, DeadlineSilence) and not run.scenario.tiers:
        return silence.after
    if isinstance(policy, Rounds) and policy.quorum is None:
        return policy.deadline
    return None


def deadlines(run: Evidence) -> Iterator[str]:
    """A round whose last exchange had a deadline is over by then."""
    allowed = _deadline(run)
    if allowed is None:
        return
    marks = [
        row
        for row in run.events
        if row["event"] == "round"
        or (row["event"] == "exchange" and row["node"] == "server")
        or (row["event"] == "skipped" and run.above[row["node"]] == "server")
    ]
    for opened, closed in pairwise(marks):
        if (opened["event"], closed["event"]) != ("exchange", "round"):
            continue
        late = closed["t"] - opened["t"] - allowed
        if late > ROUNDING * closed["t"]:
            yield f"round {closed['round']} closes {late} s after its deadline"


def ends(run: Evidence) -> Iterator[str]:
    """A run ends at the first round that meets a rule, and says which."""
    rules = run.scenario.stop
    if rules.time is not None and run.end > rules.time:
        yield f"the run goes on until {run.end}, and should stop at {rules.time}"
    if run.reason.startswith("time:") and run.end != rules.time:
        yield f"it ended at {run.end} by time: {rules.time}"
    total: Counter[str] = Counter()
    for at, row in enumerate(run.rounds):
        total["bits"] += row["bits_up"] + row["bits_down"]
        total["joules"] += row["joules"]
        met = list(_met(run, row, total))
        last = at == len(run.rounds) - 1
        if met and not last:
            yield f"the run goes on after round {at}, which met {met}"
        if last and ended_with_a_round(run) and run.reason.partition(":")[0] not in met:
            yield f"it ended by {run.reason}, but round {at} met {met}"
        if last and met and end_of(run.summary["status"]).complete and not ended_with_a_round(run):
            yield f"round {at} met {met}, and the run went on to {run.reason}"


def _met(run: Evidence, row: Row, total: Counter[str]) -> Iterator[str]:
    rules = run.scenario.stop
    if row["round"] >= rules.rounds:
        yield "rounds"
    if looked_at(run, row["round"]):
        feasible = _feasible(run, row)
        if rules.gap is not None and row["gap"] < rules.gap and feasible:
            yield "gap"
        named = {"objective": rules.objective, **rules.figures}
        bounds = {name: bound for name, bound in named.items() if bound is not None and feasible}
        yield from (name for name, bound in bounds.items() if row[name] <= bound)
        if rules.patience is not None and _stays(run, rules.patience, row["round"]):
            yield "patience"
    if rules.bits is not None and total["bits"] >= rules.bits:
        yield "bits"
    if rules.energy is not None and total["joules"] >= rules.energy * (1 - 1e-12):
        yield "energy"


def _feasible(run: Evidence, row: Row) -> bool:
    """Say whether the model of a round meets the constraint of its method, if that has one."""
    tolerance = run.summary.get("tolerance")
    if tolerance is None:
        return True
    return bool(row["constraint"] <= tolerance + (0.01 * abs(tolerance) or 1e-6))


def _stays(run: Evidence, rule: Patience, number: int) -> bool:
    """Say whether the rounds up to one show no improvement for so many, as the table has them."""
    known = [row for row in run.rounds if row["round"] <= number and _feasible(run, row)]
    seen = [(row["round"], row[rule.measure]) for row in known]
    seen = [(at, value) for at, value in seen if looked_at(run, at) and not isnan(value)]
    last = None
    for at, value in seen:
        gain = inf if last is None else last[1] - value
        if last is None or (gain > rule.tolerance * abs(last[1]) and gain > rule.least):
            last = at, value
    return last is not None and number - last[0] >= rule.rounds


def lateness(run: Evidence) -> Iterator[str]:
    """What is late has arrived at that very moment, or before its round was given up then."""
    arrivals: dict[tuple[str, str, int], set[float]] = {}
    for row in run.of_kind("receive"):
        if run.above.get(row["node"]) != row["peer"]:
            arrivals.setdefault((row["peer"], row["node"], row["round"]), set()).add(row["t"])
    given_up = {(row["round"], row["t"]) for row in run.of_kind("abandoned")}
    for row in run.of_kind("late"):
        came = arrivals.get((row["node"], row["peer"], row["round"]), set())
        in_vain = (row["round"], row["t"]) in given_up and min(came, default=inf) <= row["t"]
        if row["t"] not in came and not in_vain:
            yield f"row {row['seq']}: {row['node']} is late with what has not arrived"
        if bits(row):
            yield f"row {row['seq']}: bits of a late message are counted again"


def abandoned(run: Evidence) -> Iterator[str]:
    """A round that is given up took its time, changes no model, and what came for it is late.

    So is one that no client has answered, which ends when the last one that was asked leaves or at
    the deadline, or at once where none is available.
    """
    policy = run.policy
    objectives = {row["round"]: row["objective"] for row in run.rounds}
    ended = {(row["round"], row["t"]) for row in run.of_kind("round")}
    opened = {row["seq"]: row["t"] for row in run.at_top("exchange")}
    if not isinstance(policy, Rounds):  # where all are at work, a round begins and nobody is asked
        opened |= {row["seq"]: row["t"] for row in run.of_kind("round")}
    late = Counter((row["node"], row["round"], row["t"]) for row in run.of_kind("late"))
    for row in run.at_top("abandoned"):
        number, t = row["round"], row["t"]
        if (number, t) not in ended:
            yield f"round {number} is given up at {t}, and has not ended then"
        before = objectives.get(number - 1, objectives.get(number))
        known = number in objectives and not isnan(objectives[number] + before)
        known = known and run.scenario.counting == "rounds"  # else it shows the step before it
        if known and objectives[number] != before:
            yield f"round {number} is given up, and the objective goes from {before} on"
        if row["detail"].startswith("none of the clients"):
            if row["duration"]:
                yield f"round {number} asks no client, and takes {row['duration']} s"
            continue
        began = opened[max((seq for seq in opened if seq < row["seq"]), default=-1)]
        if not close(t - began, row["duration"], t, ROUNDING):
            yield f"round {number} is given up after {row['duration']} s, begun at {began}"
        answers = [
            each
            for each in run.of_kind("receive")
            if each["node"] == "server" and began <= each["t"] <= t and each["round"] == number
        ]
        unanswered = not answers and row["detail"].startswith("0 of ")
        patience = None if unanswered else policy.give_up
        if patience is not None and not close(row["duration"], patience, t, ROUNDING):
            yield f"round {number} is given up after {row['duration']} s, of {policy.give_up}"
        if isinstance(policy, Rounds):
            yield from _in_vain(run, row, began, late)


def _in_vain(
    run: Evidence, given_up: Row, began: float, late: Counter[tuple[str, int, float]]
) -> Iterator[str]:
    """Replies to the last exchange of a round that was given up are late at that moment."""
    number, t = given_up["round"], given_up["t"]
    for row in run.of_kind("receive"):
        mine = row["node"] == "server" and row["round"] == number and row["payload_bits"]
        if not mine or row["detail"] is not None or not began < row["t"] <= t:
            continue
        key = row["peer"], number
        if not any(late[*key, moment] for moment in (row["t"], t)):
            yield f"round {number} is given up, and {row['peer']}'s reply to it counts"
