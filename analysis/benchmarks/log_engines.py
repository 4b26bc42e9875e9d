"""Would the questions of a log be answered faster by Arrow or by polars than by pandas and NumPy?

Two questions in each of the three, on a log of one run: what each has sent,
by direction and message (a sum by group), and what became of each client in each round (a maximum
by group of a column made of conditions). Answers are compared. Seconds are wall-clock, the better
of two turns; pandas and Arrow use one processor for most of it, polars all of them.

    python analysis/benchmarks/log_engines.py [ROWS]
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from fedsim.results.analysis import example_log
from fedsim.results.analysis.log.frames import BITS
from fedsim.results.analysis.log.messages import bits_by_message
from fedsim.results.analysis.log.participation import OUTCOMES, round_outcomes

_COLUMNS = ("event", "node", "peer", "message", "detail", "round", *BITS)

Answer = dict[str, int]


def bits_in_pandas(events: pd.DataFrame) -> Answer:
    """Return the bits of each direction and message."""
    found = bits_by_message(events)
    return dict(zip(found["direction"] + " " + found["message"], found["bits"], strict=True))


def bits_in_polars(events: pl.DataFrame) -> Answer:
    """Return the same by polars."""
    direction = (
        pl.when(pl.col("node") == "server").then(pl.lit("down "))
        .when(pl.col("peer") == "server").then(pl.lit("up ")).otherwise(pl.lit("peer "))
    )  # fmt: skip
    found = (
        events.lazy()
        .filter(pl.col("event").is_in(["send", "retransmit"]))
        .group_by(direction.alias("direction"), pl.col("message").cast(pl.String))
        .agg(pl.sum_horizontal(*BITS).sum().alias("bits"))
        .collect()
    )
    return {row[0] + row[1]: row[2] for row in found.iter_rows()}


def bits_in_arrow(events: pa.Table) -> Answer:
    """Return the same by Arrow."""
    text = {name: pc.cast(events[name], pa.string()) for name in ("event", "node", "peer")}
    own = pc.is_in(text["event"], pa.array(["send", "retransmit"]))
    up = pc.fill_null(pc.equal(text["peer"], "server"), fill_value=False)
    direction = pc.if_else(
        pc.equal(text["node"], "server"), "down ", pc.if_else(up, "up ", "peer ")
    )
    bits = pc.add(pc.add(*(events[name] for name in BITS[:2])), events[BITS[2]])
    message = pc.cast(events["message"], pa.string())
    table = pa.table({"direction": direction, "message": message, "bits": bits}).filter(own)
    found = table.group_by(["direction", "message"]).aggregate([("bits", "sum")])
    return {row["direction"] + row["message"]: row["bits_sum"] for row in found.to_pylist()}


def outcomes_in_pandas(events: pd.DataFrame) -> Answer:
    """Return how many rounds and clients have each outcome."""
    return dict(round_outcomes(events)["outcome"].value_counts())


def outcomes_in_polars(events: pl.DataFrame) -> Answer:
    """Return the same by polars."""
    event = pl.col("event").cast(pl.String)
    replied = (
        (event == "send") & (pl.col("node") != "server")
        & (pl.col("payload_bits") > 0) & pl.col("detail").is_null()
    )  # fmt: skip
    outcome = pl.coalesce(
        pl.when(replied).then(1),
        *(pl.when(event == name).then(number) for number, name in enumerate(OUTCOMES[2:], start=2)),
    )
    client = pl.when(pl.col("node") == "server").then(pl.col("peer")).otherwise(pl.col("node"))
    found = (
        events.lazy()
        .select(outcome=outcome, client=client, round=pl.col("round"))
        .filter(pl.col("round") > 0).drop_nulls()
        .group_by("round", "client").agg(pl.col("outcome").max())
        .group_by("outcome").len().collect()
    )  # fmt: skip
    return {OUTCOMES[number]: count for number, count in found.iter_rows()}


def outcomes_in_arrow(events: pa.Table) -> Answer:
    """Return the same by Arrow."""
    event, node, peer = (pc.cast(events[name], pa.string()) for name in ("event", "node", "peer"))
    replied = pc.and_(pc.equal(event, "send"), pc.not_equal(node, "server"))
    replied = pc.and_(replied, pc.greater(events["payload_bits"], 0))
    replied = pc.and_(replied, pc.is_null(events["detail"]))
    conditions = [replied, *(pc.equal(event, name) for name in OUTCOMES[2:])]
    names = [str(number) for number in range(1, len(OUTCOMES))]
    outcome = pc.case_when(
        pc.make_struct(*conditions, field_names=names), *map(pa.scalar, range(1, len(OUTCOMES)))
    )
    client = pc.if_else(pc.equal(node, "server"), peer, node)
    kept = pc.and_(
        pc.is_valid(outcome), pc.and_(pc.is_valid(client), pc.greater(events["round"], 0))
    )
    table = pa.table({"round": events["round"], "client": client, "outcome": outcome}).filter(kept)
    cells = table.group_by(["round", "client"]).aggregate([("outcome", "max")])
    counts = cells.group_by("outcome_max").aggregate([([], "count_all")]).to_pylist()
    return {OUTCOMES[row["outcome_max"]]: row["count_all"] for row in counts}


def _replicated(rows: int) -> pd.DataFrame:
    """Return the columns of about so many rows: the example's `chb`, seed 1, in later rounds."""
    events = example_log().events
    own = events.loc[(events["variant"] == "chb") & (events["seed"] == 1), [*_COLUMNS]]
    times = -(-rows // len(own))
    log = own.take(np.tile(np.arange(len(own)), times))
    later = np.repeat(np.arange(times, dtype=np.int32), len(own)) * np.int32(own["round"].max())
    return log.assign(round=log["round"].to_numpy() + later).reset_index(drop=True)


def _seconds(ask: Callable[[Any], Answer], log: object) -> tuple[float, Answer]:
    """Return the better time of two, and the answer."""
    times = []
    for _ in range(2):
        start = time.perf_counter()
        found = ask(log)
        times.append(time.perf_counter() - start)
    return min(times), found


def main() -> None:
    """Print a row a question."""
    rows = int(sys.argv[1]) if sys.argv[1:] else 10_000_000
    frame = _replicated(rows)
    start = time.perf_counter()
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    to_arrow = time.perf_counter() - start
    start = time.perf_counter()
    polars = pl.DataFrame(arrow)
    to_polars = time.perf_counter() - start
    print(f"{'question':16} {'pandas, s':>10} {'Arrow, s':>10} {'polars, s':>10}")
    print(f"{'from pandas':16} {'':10} {to_arrow:10.2f} {to_arrow + to_polars:10.2f}")
    for name, in_pandas, in_arrow, in_polars in (
        ("bits_by_message", bits_in_pandas, bits_in_arrow, bits_in_polars),
        ("round_outcomes", outcomes_in_pandas, outcomes_in_arrow, outcomes_in_polars),
    ):
        own, ours = _seconds(in_pandas, frame)
        others = [_seconds(in_arrow, arrow), _seconds(in_polars, polars)]
        if any(found != ours for _, found in others):
            raise SystemExit(f"{name}: pandas has {ours}, Arrow and polars have {others}")
        print(f"{name:16} {own:10.2f} {others[0][0]:10.2f} {others[1][0]:10.2f}", flush=True)


if __name__ == "__main__":
    main()
