"""The auditor's checks of what peers tell each other, whose messages are stored on their way."""

from collections import Counter
from collections.abc import Iterator

from fedsim.algorithms.pairwise import PairwiseAlgorithm

from .books import KEY, unmatched
from .evidence import Evidence, Row, bits

Book = Counter[tuple[object, ...]]


def told_once(run: Evidence) -> Iterator[str]:
    """A node tells each neighbour one thing a round; in pairs, one for each offer to it."""
    if isinstance(run.scenario.algorithm, PairwiseAlgorithm):
        yield from _answered(run)
        return
    told = Counter((row["node"], row["peer"], row["round"]) for row in run.of_kind("send"))
    yield from (f"{key} is told {count} times" for key, count in told.items() if count > 1)


def _answered(run: Evidence) -> Iterator[str]:
    """No node has more answers from a neighbour than that has had offers of it."""
    owed = Book()
    for row in run.of_kind("receive"):
        if row["message"] == "offer" and row["detail"] is None:
            owed[row["node"], row["peer"]] += 1
    for row in run.of_kind("send"):
        if row["message"] != "offer":
            owed[row["node"], row["peer"]] -= 1
    yield from (f"{key}: {-count} answers to no offer" for key, count in owed.items() if count < 0)


def _key(row: Row, sender: str, receiver: str | None) -> tuple[object, ...]:
    """Return what is the same of a message on both of its legs: all but the time."""
    return sender, receiver, *(row[column] for column in KEY if column != "t")


def legs(run: Evidence) -> Iterator[str]:
    """What is received was sent before, bit for bit; the rest is lost or in flight."""
    if run.scenario.network.medium is not None:
        yield from _hops(run)
        return
    yield from _in_vain(run)
    sent, since = Book(), dict[tuple[object, ...], float]()
    for row in run.of_kind("send"):
        if row["detail"] is None:
            key = _key(row, row["node"], row["peer"])
            sent[key] += 1
            since.setdefault(key, row["t"])  # see `_hops`
    for row in run.of_kind("receive"):
        key = _key(row, row["peer"], row["node"])
        if row["detail"] is not None and bits(row):
            yield f"row {row['seq']}: a message that was {row['detail']} brought bits"
        elif row["detail"] is None:
            sent[key] -= 1
            if row["t"] < since.get(key, row["t"]):
                yield f"row {row['seq']}: received before it was sent"
    sent.subtract(_lost_after(run))
    yield from (f"{key}: came or was lost, and nobody sent it" for key in sent if sent[key] < 0)
    yield from _stored(run, sent)


def _hops(run: Evidence) -> Iterator[str]:
    """What goes on over nodes was sent, once for all its receivers; each has a row for it."""
    sent, times, heard, lost = dict[tuple[object, ...], float](), Book(), Book(), _lost(run)
    for row in run.of_kind("send"):  # in pairs, equal messages may be sent more than once a round
        key = _key(row, row["node"], row["peer"])
        sent.setdefault(key, row["t"])
        times[key] += 1
    came = run.of_kind("receive")
    flies = {(row["peer"], row["round"]) for row in came if row["detail"] == "in flight"}
    for row in came:
        if row["detail"] is not None:
            if bits(row):
                yield f"row {row['seq']}: a message that was {row['detail']} brought bits"
            continue
        keys = [_key(row, row["peer"], to) for to in (row["node"], None)]
        found = next((each for each in keys if each in sent), None)
        if found is None or row["t"] < sent[found]:
            yield f"row {row['seq']}: {row['node']} received what was not sent before"
        else:
            heard[found] += 1
    for key in sent:
        if not heard[key] and not lost[key] and (key[0], key[2]) not in flies:
            yield f"{key}: was sent and neither received, lost nor in flight"
    for key in lost:
        most = times[key] - lost[key] if key[1] else 0  # a broadcast that is lost reaches nobody
        if heard[key] > most:
            yield f"{key}: lost, and received by {heard[key]}"


def _gone(run: Evidence) -> Book:
    """Return what was lost on its first leg, or was broken off there."""
    gone = {"lost", "aborted"}
    rows = (row for row in run.of_kind("send") if row["detail"] in gone)
    return Counter(_key(row, row["node"], row["peer"]) for row in rows)


def _lost(run: Evidence) -> Book:
    return Counter(_key(row, row["node"], row["peer"]) for row in run.of_kind("lost"))


def _in_vain(run: Evidence) -> Iterator[str]:
    yield from unmatched(_gone(run) - _lost(run), "was sent in vain and is not in a lost row")


def _lost_after(run: Evidence) -> Book:
    """Return what was lost on its second leg."""
    return _lost(run) - _gone(run)


def _stored(run: Evidence, sent: Book) -> Iterator[str]:
    """What has neither come nor been lost by the end waits for its receiver's radio."""
    waits = Book()
    for row in run.of_kind("receive"):
        if row["detail"] == "in flight" and row["t"] == run.end:
            waits[row["peer"], row["node"], row["round"]] += 1
    for key, count in sent.items():
        if count > waits[key[:3]]:
            yield f"{key}: was sent and neither received, lost nor in flight"
