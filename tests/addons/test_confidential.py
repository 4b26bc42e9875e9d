"""Secrecy, privacy and malicious clients with everything else: pairs work, or are refused."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.addons.live import run_live
from fedsim.core.errors import FedsimError, RepricingError
from fedsim.protocol.privacy.accounting import Bound, planned_epsilon
from tests.runs import PEERS, small

pytestmark = [
    pytest.mark.needs("privacy"),
    pytest.mark.needs("secrecy"),
    pytest.mark.filterwarnings("ignore::fedsim.core.errors.RunWarning"),
    pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning"),
]

PROBLEM = {**PEERS["problem"], "weights": "equal"}
FEDAVG = {"kind": "fedavg", "step_size": 0.1, "local_steps": 2}
NOISED: dict[str, Any] = {"clip": 0.5, "noise": 2.0}
PARTS = {**NOISED, "where": "distributed"}
SECAGG: dict[str, Any] = {"kind": "secagg", "clip": 0.5}


def false(kind: str) -> list[dict[str, Any]]:
    """Return a fleet whose last client is false."""
    true = {"count": 4, "device": "phone-mid", "radio": "lte"}
    return [true, {"count": 1, "device": "pi-4", "radio": "wifi", "attack": {"kind": kind}}]


BLOCKS: dict[str, dict[str, Any]] = {
    "noise": {"privacy": NOISED},
    "adaptive": {"privacy": {**NOISED, "clip": {"kind": "adaptive", "count_noise": 3.0}}},
    "tree": {"privacy": {**NOISED, "tree": 2}},
    "local": {"privacy": {**NOISED, "where": "clients"}},
    "skellam": {"privacy": PARTS, "secrecy": SECAGG},
    "discrete": {"privacy": {**PARTS, "law": "discrete-gaussian"}, "secrecy": SECAGG},
    "secagg": {"secrecy": SECAGG},
    "masked": {"secrecy": {**SECAGG, "silence": "mask"}},
    "secagg+": {"secrecy": {**SECAGG, "kind": "secagg+", "neighbours": 2}},
    "light": {"secrecy": {**SECAGG, "kind": "lightsecagg", "threshold": 0.8}},
    "secret and false": {"secrecy": SECAGG, "fleet": false("sign-flip")},
    "noise and false": {"privacy": NOISED, "fleet": false("sign-flip")},
    "noise and colluding": {"privacy": NOISED, "fleet": false("alie")},
    "false": {"fleet": false("sign-flip")},
    "colluding": {"fleet": false("alie")},
    "silent": {"fleet": false("silent")},
    "krum": {"aggregation": {"kind": "krum", "byzantine": 1}, "fleet": false("sign-flip")},
    "local and median": {
        "privacy": {**NOISED, "where": "clients"},
        "aggregation": {"kind": "median"},
    },
}
SECRET = ("skellam", "discrete", "secagg", "masked", "secagg+", "light", "secret and false")
PRIVATE = ("noise", "adaptive", "tree", "local", "noise and false", "local and median")
WIFI = ["fleet.0.radio=wifi"]


def scenario(block: str, **more: Any) -> dict[str, Any]:
    base = {"problem": PROBLEM, "algorithm": FEDAVG, "stop": {"rounds": 3}}
    return small(**base | BLOCKS[block] | more)


def compare(one: Path, other: Path) -> None:
    """Assert that two studies have the same tables, to the byte."""
    for table in ("rounds", "clients", "events", "models"):
        first, second = (next(each.rglob(f"seed-1/{table}.parquet")) for each in (one, other))
        assert first.read_bytes() == second.read_bytes(), table


def reprice(block: str, folder: Path) -> None:
    fedsim.run(scenario(block), out=folder / "before")
    fedsim.reprice(folder / "before", WIFI, folder / "priced")
    fedsim.run(scenario(block), overrides=WIFI, out=folder / "fresh")
    compare(folder / "priced", folder / "fresh")


def study(block: str, folder: Path) -> Path:
    variants = {"two": {}, "one": {"algorithm": {"local_steps": 1}}}
    fedsim.run(scenario(block, variants=variants), out=folder)
    return folder


def robust(block: str, folder: Path) -> None:
    assert len(fedsim.robust(study(block, folder), worlds=8).constants)


def explore(block: str, folder: Path) -> None:
    assert fedsim.explore(study(block, folder), folder / "page.html").stat().st_size


def live(block: str, folder: Path) -> None:
    fleet = BLOCKS[block].get("fleet", [{"count": 5}])
    bare = [{key: group[key] for key in ("count", "attack") if key in group} for group in fleet]
    made = run_live(scenario(block, fleet=bare), out=folder / "live").rounds
    due = fedsim.run(scenario(block, fleet=bare), out=folder / "simulated").rounds
    timeless = [name for name in due.columns if name not in {"t", "joules"}]
    pd.testing.assert_frame_equal(made[timeless], due[timeless], check_exact=True)


def resume(block: str, folder: Path) -> None:
    def interrupt(progress: Any) -> None:
        if progress.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(scenario(block), out=folder / "again", watch=interrupt)
    fedsim.run(scenario(block), out=folder / "again")
    fedsim.run(scenario(block), out=folder / "once")
    compare(folder / "again", folder / "once")


def rounds(made: Mapping[str, Any], folder: Path) -> None:
    assert fedsim.run(made, out=folder).rounds["round"].iloc[-1] == 3


def tiers(block: str, folder: Path) -> None:
    rounds(scenario(block, tiers=[{"count": 2}]), folder)


def peers(block: str, folder: Path) -> None:
    graph = {"network": {"peers": {"kind": "ring"}}, "stop": {"rounds": 3}}
    rounds({**PEERS, "fleet": [{"count": 5}], **graph, **BLOCKS[block]}, folder)


def asynchronous(block: str, folder: Path) -> None:
    policy = {"kind": "asynchronous", "buffer": 2}
    fedbuff = {"kind": "fedbuff", "step_size": 0.1}
    rounds(scenario(block, algorithm=fedbuff, participation=policy), folder)


def as_bytes(block: str, folder: Path) -> None:
    for carry in ("bytes", "values"):
        fedsim.run(scenario(block), out=folder / carry, carry=carry)
    compare(folder / "bytes", folder / "values")


def ditto(block: str, folder: Path) -> None:
    rounds(scenario(block, algorithm={"kind": "ditto", "step_size": 0.1}), folder)


def pfedme(block: str, folder: Path) -> None:
    rounds(scenario(block, algorithm={"kind": "pfedme", "step_size": 0.1}), folder)


def apfl(block: str, folder: Path) -> None:
    rounds(scenario(block, algorithm={"kind": "apfl", "step_size": 0.1}), folder)


Way = Callable[[str, Path], None]
QUICK: tuple[Way, ...] = (tiers, peers, asynchronous, ditto)
WAYS: tuple[Way, ...] = (*QUICK, reprice, robust, explore, live, resume, as_bytes, pfedme, apfl)

REFUSED: dict[tuple[Way, str], str] = {
    **{(tiers, block): "privacy or tiers" for block in (*PRIVATE, "noise and colluding")},
    **{(tiers, block): "one server; leave out tiers, or secrecy" for block in SECRET},
    **{(peers, block): "no server that adds up" for block in (*PRIVATE, "noise and colluding")},
    **{(peers, block): "have no server; leave out secrecy" for block in SECRET},
    (peers, "colluding"): "got alie, which needs a server",
    (peers, "silent"): "got silent, which needs a server",
    (peers, "krum"): "use mean or trimmed-mean or clipped-gossip",
    **{(asynchronous, block): "adds up the replies of a round" for block in SECRET},
    **{(live, block): "no encoding as bytes" for block in SECRET},
    (live, "colluding"): "malicious clients see what the honest ones send",
    (live, "noise and colluding"): "malicious clients see what the honest ones send",
    (live, "silent"): "live clients do not do yet",
    **{(as_bytes, block): "no encoding as bytes" for block in SECRET},
}
"""What is refused, and a part of the sentence; all else works."""


def pairs() -> list[Any]:
    return [
        pytest.param(way, block, id=f"{block}, {way.__name__}", marks=() if quick else slow)
        for way in WAYS
        for block in BLOCKS
        for slow in [pytest.mark.slow]
        for quick in [(way, block) in REFUSED or way in QUICK or block in ("tree", "krum")]
    ]


@pytest.mark.parametrize(("way", "block"), pairs())
def test_each_pair_works_or_is_refused_by_name(way: Way, block: str, tmp_path: Path) -> None:
    if (way, block) not in REFUSED:
        way(block, tmp_path)
        return
    with pytest.raises(FedsimError, match=REFUSED[way, block]):
        way(block, tmp_path)


TOGETHER: dict[str, dict[str, Any]] = {
    "which compares vectors": {"secrecy": SECAGG, "aggregation": {"kind": "median"}},
    "a masked vector is neither seen": {"secrecy": SECAGG, "fleet": false("alie")},
    "one client may change by more": {"privacy": NOISED, "aggregation": {"kind": "median"}},
    "protect only a sum; give secrecy": {"privacy": PARTS},
    "under secrecy no server sees the bits": BLOCKS["adaptive"] | {"secrecy": SECAGG},
}


@pytest.mark.parametrize("reason", TOGETHER)
def test_two_of_the_blocks_are_refused_together(reason: str) -> None:
    base = {"problem": PROBLEM, "algorithm": FEDAVG, "stop": {"rounds": 3}}
    with pytest.raises(FedsimError, match=reason):
        fedsim.load(small(**base | TOGETHER[reason]))


# What the log has, and what a re-pricing makes of it.


def events_of(block: str, folder: Path, **more: Any) -> pd.DataFrame:
    return fedsim.run(scenario(block, **more), out=folder).events


CHB = {"algorithm": {"kind": "chb", "step_size": "1/L"}, "stop": {"rounds": 4}}


@pytest.mark.parametrize("block", ["noise", "secagg", "masked"])
def test_silent_and_masked_clients_are_in_the_log_and_priced_again(
    block: str, tmp_path: Path
) -> None:
    events = events_of(block, tmp_path / "before", **CHB)
    silent = int((events["event"] == "silent").sum())
    sent = events[events["event"] == "send"]["message"].value_counts()
    if block == "masked":  # all send, and the server cannot tell who would have been silent
        assert silent == 0
        assert sent["maskedinput"] == 5 * 4
    else:
        assert silent > 0
        assert silent + sent["innovation" if block == "noise" else "maskedinput"] == 5 * 4
    fedsim.reprice(tmp_path / "before", WIFI, tmp_path / "priced")
    fedsim.run(scenario(block, **CHB), overrides=WIFI, out=tmp_path / "fresh")
    compare(tmp_path / "priced", tmp_path / "fresh")


def test_a_tree_is_priced_again_over_its_restarts(tmp_path: Path) -> None:
    """Seven rounds are trees of 3, 3 and 1; each client replies in all of them."""
    more = {"privacy": {**NOISED, "tree": 3}, "stop": {"rounds": 7}}
    fedsim.run(scenario("tree", **more), out=tmp_path / "before")
    fedsim.reprice(tmp_path / "before", WIFI, tmp_path / "priced")
    fedsim.run(scenario("tree", **more), overrides=WIFI, out=tmp_path / "fresh")
    compare(tmp_path / "priced", tmp_path / "fresh")
    squares = 2 * (1 + 2**2 + 1) + 1  # of nodes of one, two and one leaves
    spent = planned_epsilon(squares, 2.0**-2, Bound(sample=5, clients=5, tree=3), 1e-5)
    (table,) = (tmp_path / "priced").rglob("clients.parquet")
    assert pd.read_parquet(table)["epsilon"].tolist() == pytest.approx([spent] * 5)


@pytest.mark.parametrize("block", ["secagg", "skellam"])
def test_rounds_that_are_abandoned_are_in_the_log_and_not_priced_again(
    block: str, tmp_path: Path
) -> None:
    away = {"availability": {"kind": "bernoulli", "share": 0.5}}
    fleet = [{"count": 5, "device": "phone-mid", "radio": "lte", **away}]
    secrecy = {**SECAGG, "threshold": 1.0}
    policy = {"kind": "full", "deadline": "300 ms"}
    events = events_of(block, tmp_path, fleet=fleet, secrecy=secrecy, participation=policy)
    abandoned = events[events["event"] == "abandoned"]
    assert len(abandoned)
    assert abandoned["detail"].astype(bool).all()
    with pytest.raises(RepricingError, match="in time decides the aggregate"):
        fedsim.reprice(tmp_path, WIFI, tmp_path / "priced")
