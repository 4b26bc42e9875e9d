"""The page of a season as one HTML file that loads nothing from elsewhere."""

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from fedsim.addons.bench.rules import Rules, summary_of
from fedsim.addons.bench.running import CLOCKS
from fedsim.addons.bench.scoring import REACH, cost_table, orders, score, scores
from fedsim.core.atomic import write_whole
from fedsim.core.extras import VERSION
from fedsim.core.ports import Array
from fedsim.results.analysis.style import COLOURS
from fedsim.results.report.templating import asset, environment

_WIDTH, _HEIGHT = 640, 260
"""Size of a figure of profiles, in pixels."""


def write_page(
    summaries: Sequence[Mapping[str, Any]], file: str | Path, rules: Rules | None = None
) -> Path:
    """Write the ranks, scores by fleet, profiles and entries of a season.

    Args:
        summaries: the sealed summaries of the entries.
        file: the page to write.
        rules: of their season; those of the first one if None.

    Returns:
        The page.

    Raises:
        DataError: the summaries cannot be compared.
        OutputError: the file cannot be written.
    """
    rules = rules or Rules.first()
    ranked, pairs = score(summaries, rules), orders(summaries, rules)
    clocks = [
        {
            "name": clock.replace("_", " "),
            "ranks": ranked[ranked["clock"] == clock].to_dict("records"),
            "pairs": pairs[pairs["clock"] == clock].to_dict("records"),
            **_by_fleet(cost_table(summaries, clock, rules)),
        }
        for clock in CLOCKS
    ]
    names = [str(each["entry"]["name"]) for each in summaries]
    page = environment("fedsim.addons.bench").get_template("site.html")
    text = page.render(
        clocks=clocks,
        entries=dict(zip(names, map(_entry, summaries), strict=True)),
        colours={
            name: (_LINES[index % len(_LINES)], _DASHES[index // len(_LINES) % len(_DASHES)])
            for index, name in enumerate(names)
        },
        rules=rules,
        said={kind: _first_comments(kind, rules) for kind in ("tasks", "fleets")},
        size=(_WIDTH, _HEIGHT),
        reach=REACH,
        style=asset("fedsim.addons.bench", "site.css"),
        version=VERSION,
    )
    write_whole(Path(file), text.encode())
    return Path(file)


_LINES = ["currentColor" if colour == "#000000" else colour for colour in COLOURS]
_DASHES = ("none", "7 3", "2 2", "9 2 2 2")


def _first_comments(kind: str, rules: Rules) -> dict[str, str]:
    return {name: summary_of(kind, name) for name in getattr(rules, kind)}


def _by_fleet(costs: Array) -> dict[str, Any]:
    """Return the scores of a clock by entry and fleet, and the points of each entry's profile."""
    by_fleet = np.stack([scores(costs[:, :, [each]]) for each in range(costs.shape[2])], axis=1)
    return {"heat": by_fleet.tolist(), "profiles": [_points(each) for each in _ratios(costs)]}


def _ratios(costs: Array) -> Array:
    """Return the sorted ratios of each entry to the cheapest one, shape (entries, cells)."""
    least = costs.min(axis=0)
    ratios = np.divide(costs, least, out=np.full(costs.shape, np.inf), where=np.isfinite(costs))
    return np.sort(ratios.reshape(len(costs), -1), axis=1)


def _points(ratios: Array) -> str:
    """Return a profile as the points of a polyline: a step up at each ratio within reach."""
    near = ratios[ratios <= REACH]
    x = (np.concatenate([[1], np.repeat(near, 2), [REACH]]) - 1) / (REACH - 1) * _WIDTH
    shares = np.arange(len(near) + 1) / len(ratios)
    y = (1 - np.repeat(shares, 2)) * _HEIGHT
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _entry(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file of an entry, the command that repeats it, and its runs."""
    text = StringIO()
    YAML(typ="safe").dump(dict(summary["entry"]), text)
    rows = [row for own in summary["rows"].values() for row in own]
    tried = [row for row in rows if not row["fleet"]]
    return {
        "yaml": text.getvalue(),
        "seal": summary["seal"],
        "trials": len(tried),
        "missed": sum(not row["reached"] for row in tried),
        "tuning": sum(row["bits_up"] or 0 for row in tried),
    }
