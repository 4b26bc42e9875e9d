"""Third-party rate traces: UCC's and Lumos5G's tables, Pensieve's two columns, MONROE's flows."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.core.blocks.wording import listed
from fedsim.core.errors import DataError
from fedsim.core.files import read_bytes
from fedsim.core.ports import Array
from fedsim.physics.formats.pickles import Tree, read_json
from fedsim.physics.formats.tables import read_columns
from fedsim.physics.signals import Steps

Direction = Literal["up", "down"]
"""The direction of the traffic in a trace: up from the client, or down to it."""

_KEY = "trace"
_UCC_TIME = "%Y.%m.%d_%H.%M.%S"
_UCC_COLUMNS = {"down": "DL_bitrate", "up": "UL_bitrate"}
_TIMES = 100  # bytes of memory per byte of a file with two columns


def read_ucc(path: Path, direction: Direction, repeat: bool) -> Steps:
    """Read a trace of the 5G data set of University College Cork, as written by G-NetTrack Pro.

    It is a CSV file with, among others, Timestamp (2019.11.25_15.34.34), DL_bitrate and UL_bitrate
    in kbit/s. Times are whole seconds; rows of one second are averaged. A rate holds until the next
    second that has a row. Raca et al., "Beyond Throughput, The Next Generation: A 5G Dataset with
    Channel and Context Metrics", MMSys 2020, https://github.com/uccmisl/5Gdataset.

    Args:
        path: the file.
        direction: down for DL_bitrate, up for UL_bitrate.
        repeat: whether the trace starts again after its end. If so, its last rate lasts as long as
            the previous one; otherwise the last rate stays.

    Returns:
        The rate, bit/s, from the first second on.

    Raises:
        DataError: the file cannot be read, a column is missing, or a cell is malformed.
    """
    name = _UCC_COLUMNS[direction]
    table = read_columns(path, ("Timestamp", name), _KEY)
    stamps = table.parse("Timestamp", _seconds, "a time such as 2019.11.25_15.34.34")
    rates = table.numbers(name) * 1e3
    # The table may have several rows for the same second, which are averaged.
    seconds, places, counts = np.unique(stamps, return_inverse=True, return_counts=True)
    means = np.bincount(places, rates) / counts
    return _step_rates(seconds, means, repeat=repeat)


def _seconds(text: str) -> float:
    return datetime.strptime(text, _UCC_TIME).replace(tzinfo=UTC).timestamp()


def read_lumos(path: Path, run: int, repeat: bool) -> Steps:
    """Read a run of Lumos5G's table: one row per second, with the TCP throughput downlink.

    It is a CSV file with, among others, run_num, seq_num (the second of the run) and Throughput in
    Mbit/s. Narayanan et al., "Lumos5G: Mapping and Predicting Commercial mmWave 5G Throughput", IMC
    2020, doi 10.1145/3419394.3423629, https://lumos5g.umn.edu, CC BY 4.0.

    Args:
        path: the file.
        run: the run_num of the run.
        repeat: as in `read_ucc`.

    Returns:
        The rate, bit/s, from the first second of the run on.

    Raises:
        DataError: see `read_ucc`; or there is no such run, or its seconds do not increase.
    """
    table = read_columns(path, ("run_num", "seq_num", "Throughput"), _KEY)
    runs = table.numbers("run_num")
    kept = np.flatnonzero(runs == run).tolist()
    if not kept:
        known = [f"{number:g}" for number in np.unique(runs)]
        raise DataError(_KEY, f"{path} has no run_num {run}; it has {listed(known, 10)}")
    of_run = table.rows(kept)
    seconds = of_run.numbers("seq_num")
    wrong = np.diff(seconds, prepend=-inf) <= 0
    if wrong.any():
        at = int(np.argmax(wrong))
        of_run.fail(at, "seq_num rises within a run", of_run.cells["seq_num"][at])
    return _step_rates(seconds, of_run.numbers("Throughput") * 1e6, repeat=repeat)


def _step_rates(times: Array, rates: Array, *, repeat: bool) -> Steps:
    """Return rates that hold until the next time; the first time becomes 0."""
    since = times - times[0]
    # The last rate has no end in the file; it holds as long as the rate before it.
    gap = since[-1] - since[-2] if len(since) > 1 else 1.0
    return Steps(since, rates, float(since[-1] + gap) if repeat else inf)


def read_pensieve(path: Path, repeat: bool) -> Steps:
    """Read a trace in Pensieve's format: lines of a time in seconds, a space, and a rate in Mbit/s.

    The traces of FCC's measurements that come with Pensieve have this format, and so do those of
    the 5G measurements of SIGCOMM 2021. As in Pensieve's simulator, a rate holds from the previous
    time to its own, and the first rate is not used. The trace starts again after its end. Mao et
    al., "Neural Adaptive Video Streaming with Pensieve", SIGCOMM 2017; Narayanan et al., "A
    Variegated Look at 5G in the Wild", SIGCOMM 2021, https://github.com/SIGCOMM21-5G/artifact.

    Args:
        path: the file.
        repeat: whether the trace starts again after its end; otherwise the last rate stays.

    Returns:
        The rate, bit/s, from the first time on.

    Raises:
        DataError: the file cannot be read, a line is malformed, times decrease, or there are fewer
            than two times.
    """
    times: list[float] = []
    rates: list[float] = []
    text = read_bytes(path, _KEY, _TIMES).decode("utf-8-sig", "backslashreplace")
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        pair = _pair(line)
        if pair is None or (times and pair[0] < times[-1]):
            wants = "a line is seconds and Mbit/s, 0 or more, a space between; times never fall"
            raise DataError(_KEY, f"{path}, line {number}: {wants}; got {line.strip()[:60]!r}")
        if not times or pair[0] > times[-1]:  # a rate that lasts for no time has no effect
            times.append(pair[0])
            rates.append(pair[1])
    if len(times) < 2:
        raise DataError(_KEY, f"{path} has {len(times)} times; two or more are accepted")
    since = np.array(times) - times[0]
    return Steps(since[:-1], np.array(rates[1:]) * 1e6, float(since[-1]) if repeat else inf)


def _pair(line: str) -> tuple[float, float] | None:
    try:
        time, rate = map(float, line.split())
    except ValueError:
        return None
    return (time, rate) if isfinite(time) and isfinite(rate) and rate >= 0 else None


def read_monroe(path: Path, direction: Direction, repeat: bool) -> Steps:
    """Read a rate trace of MONROE-Nettest: the flows file of one measurement.

    It is JSON, possibly compressed by xz. res_details.dl and .ul are lists of flows, each with a
    time_series of {"t": nanoseconds, "b": bytes}: the bytes that the flow has carried until then.
    Between two points the rate is constant. The trace ends with the first flow that ends, as in the
    program's own result. Midoglu et al., "MONROE-Nettest: A Configurable Tool for Dissecting Speed
    Measurements in Mobile Broadband Networks", 2017, arXiv:1710.07805.

    Args:
        path: the file.
        direction: up or down.
        repeat: as in `read_pensieve`.

    Returns:
        The rate of all flows together, bit/s.

    Raises:
        DataError: the file cannot be read, or has no such flows; the text names the flow.
    """
    key = {"down": "dl", "up": "ul"}[direction]
    flows = read_json(path, _KEY)["res_details"][key].items()
    if not flows:
        raise DataError(_KEY, f"{path}: res_details.{key} has no flow; one or more are accepted")
    series = [_series(flow["time_series"].items()) for flow in flows]
    # The total of all flows is known only until the first of them ends.
    end = min(float(times[-1]) for times, _ in series)
    edges = np.unique(np.concatenate([[0.0, end], *(times[times < end] for times, _ in series)]))
    carried = sum(np.interp(edges, times, carried) for times, carried in series)
    # Interpolation may round a difference of equal numbers to slightly below 0.
    rates = np.maximum(np.diff(carried), 0.0) / np.diff(edges)
    return Steps(edges[:-1] * 1e-9, rates * 8e9, end * 1e-9 if repeat else inf)


def _series(points: Sequence[Tree]) -> tuple[Array, Array]:
    """Return the times in ns and the bytes of a flow, from 0 on; the last point counts per time."""
    times, carried = [0.0], [0.0]
    for point in points:
        time, bytes_then = point["t"].number(), point["b"].number()
        if time < times[-1] or bytes_then < carried[-1]:
            point.fail("t and b never fall within a flow")
        if time == times[-1]:
            carried[-1] = bytes_then
        else:
            times.append(time)
            carried.append(bytes_then)
    if len(times) == 1:
        raise DataError(_KEY, "a flow of the trace has no point after 0 ns; one is accepted")
    return np.array(times), np.array(carried)
