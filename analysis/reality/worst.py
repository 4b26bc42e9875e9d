"""Are the worst errors of `model: tcp` those of the model, or chance of the reference?

    python analysis/reality/worst.py

Each case of ns-3's whose error is above a tenth is simulated again with delays of its links that
vary within a microsecond, as ns-3 was (ns3/varied.csv): its own times are beside the model's, run
by run. Where both are functions of which of two packets comes first at a full queue, both jump by a
timeout from one microsecond to the next, and where they agree in most of these runs no law is
missing. For cases with random losses against Linux, all measured times are beside quantiles of the
model's: there are fifteen, and a median of fifteen falls on one side or the other of a gap.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence

import kernel
import numpy as np
import packets

SHOWN = 0.1
"""The least size of an error that is looked at."""

DRAWS = 60
"""Of the model's losses, in the cases of Linux's."""

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def varied() -> Mapping[tuple[str, packets.Case], Sequence[float]]:
    """Return ns-3's time of the last message under each of the varied delays, s, by case."""
    found = dict[tuple[str, packets.Case], Sequence[float]]()
    with packets.VARIED_TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            case = packets.draw(packets.SETS[row["set"]].seed, int(row["case"]))
            found[row["set"], case] = [float(word) for word in row["times"].split()]
    return found


def lines() -> Iterator[str]:
    """Yield the lines of both tables."""
    yield "| set | messages | error | ns-3, delays as drawn and varied, s | `tcp`, the same, s |"
    yield "|---|---|---|---|---|"
    again = varied()
    for name, case, seed, times in packets.read():
        first = max(packets.by_fedsim(case, "tcp", seed))
        error = first / max(times) - 1.0
        if abs(error) > SHOWN:
            ours = [max(packets.by_fedsim(case, "tcp", n)) for n in range(1, 1 + packets.VARIED)]
            theirs = [max(times), *again[name, case]]
            what = f"{case.flows} of {case.bytes / 1e3:.0f} kB, queue {case.queue}"
            cells = [name, what, f"{100 * error:+.0f} %", _all(theirs), _all([first, *ours])]
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield f"| set | messages, losses | Linux, all runs, s | `tcp`, quantiles {_all(SHARES)}, s |"
    yield "|---|---|---|---|"
    for name in kernel.UNSEEN:
        for number, measured in kernel.read(name).items():
            case = kernel.draw(kernel.SETS[name], number)
            if not case.loss:
                continue
            ours = [
                max(packets.by_fedsim(case, "tcp", n, stack=kernel.LINUX)) for n in range(DRAWS)
            ]
            if abs(np.median(ours[: len(measured)]) / np.median(measured) - 1.0) > SHOWN:
                what = f"{case.flows} of {case.bytes / 1e3:.1f} kB, {100 * case.loss:.1f} %"
                quantiles = _all([float(each) for each in np.quantile(ours, SHARES)])
                yield f"| {name} | {what} | {_all(sorted(measured))} | {quantiles} |"


def _all(times: Sequence[float]) -> str:
    return ", ".join([f"{time:.3g}" for time in times])


if __name__ == "__main__":
    for line in lines():
        print(line)
