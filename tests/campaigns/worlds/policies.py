"""Draws of policies: who takes part, how silence is heard of, and when a run ends."""

from collections.abc import Callable

from fedsim.algorithms import Algorithm
from fedsim.core.ports import Meaning
from fedsim.protocol.participation import PARTICIPATION as POLICIES
from fedsim.protocol.participation import Sample

from .dice import Block, Dice


def deadline(dice: Dice) -> str:
    """Draw the time that a round has at most, from hopelessly short to months."""
    regimes = [(0.5, 60.0), (60.0, 1e7)] if dice.slow else [(1e-2, 1.0), (0.5, 60.0), (60.0, 1e4)]
    return dice.quantity(*dice.one(regimes), "s")


def _closing(dice: Dice) -> Block:
    late = dice.options({"late": dice.one(["keep", "drop"])}, 0.3)
    close = {"deadline": deadline(dice), "quorum": dice.percent(20, 100)}
    return dice.options(close, 0.35) | late | dice.options({"least_charge": "30 %"}, 0.1)


def _sample(dice: Dice, clients: int) -> Block:
    size: Block = dice.one([{"count": dice.whole(1, clients)}, {"share": dice.percent(5, 100)}])
    block = size | dice.options({"over": dice.whole(10, 30) / 10}, 0.3) | _closing(dice)
    if dice.careful and "over" in block and "deadline" not in block:
        block.pop("quorum", None)
    return block


def asynchronous(dice: Dice, clients: int) -> Block:
    at_work = dice.whole(1, clients)
    buffer = dice.whole(1, at_work if dice.chance(0.9) else clients)
    block = dice.options({"concurrency": at_work, "least_charge": "10 %"})
    return {"buffer": buffer, **block}


PARTICIPATION: dict[str, Callable[[Dice, int], Block]] = {
    "full": lambda dice, clients: _closing(dice),
    "uniform": _sample,
    "weighted": lambda dice, clients: {
        **_sample(dice, clients),
        **dice.options({"by": "samples"}, 0.2),
    },
    "asynchronous": asynchronous,
}


WHOLE = ("marina", "fedcomgate")
"""Methods for which every client takes part in every round."""


def participation(dice: Dice, method: type[Algorithm], clients: int) -> Block:
    """Draw who takes part; what a method is known to refuse, seldom."""
    kinds = list(PARTICIPATION)
    kind = method.model_fields["kind"].default
    if method.asynchronous and dice.careful:
        kinds = ["asynchronous"]
    elif kind in WHOLE and dice.careful:
        kinds = ["full"]
    elif dice.careful and (method.synchronous or Meaning.STATE in method.uplink.values()):
        kinds.remove("asynchronous")
    kind = "full" if "full" in kinds and dice.chance(0.3) else dice.one(kinds)
    block = {"kind": kind, **PARTICIPATION[kind](dice, clients)}
    if (Meaning.DIFFERENCE in method.uplink.values()) and dice.careful:
        block.pop("late", None)
    return block


CLASSES = {str(each.model_fields["kind"].default): each for each in POLICIES}


def estimate(dice: Dice, blocks: Block) -> None:
    """Say at times how the mean over all clients is estimated from those of a sample."""
    policy = CLASSES[blocks["participation"]["kind"]]
    if not issubclass(policy, Sample) or not dice.chance(0.3):
        return
    known = policy.chances != "unknown" or not dice.careful
    estimates = ["self-normalised", "plain", *(["unbiased"] if known else [])]
    blocks["participation"]["estimate"] = dice.one(estimates)


def silence(dice: Dice, method: type[Algorithm], around: Block) -> Block:
    """Draw how silence is heard of, and leave out of participation what goes with a beacon."""
    waits = dice.chance(0.25) and around["kind"] != "asynchronous"
    if not waits:
        return {"kind": "beacon"}
    if dice.careful:
        for key in ("deadline", "quorum", "late"):
            around.pop(key, None)
    needed = (Meaning.DIFFERENCE in method.uplink.values()) and dice.careful
    late = "keep" if needed else dice.one(["keep", "drop"])
    return {"kind": "deadline", "after": deadline(dice), "late": late}


def delivered(dice: Dice, blocks: Block) -> None:
    """Let rounds that wait for all have messages that come through, or a deadline."""
    fleet, around = blocks["fleet"], blocks["participation"]
    losing = [group["radio"] for group in fleet if group["radio"].get("loss", _NONE) != _NONE]
    if not (losing and dice.careful) or blocks["silence"]["kind"] == "deadline":
        return
    if "deadline" in around and ("quorum" not in around or dice.chance(0.5)):
        return
    if around["kind"] != "asynchronous" and dice.chance(0.5):
        around.setdefault("deadline", deadline(dice))
        return
    for radio in losing:
        radio["tries"] = "unlimited"
    blocks["network"].pop("broadcast", None)


def given_up(dice: Dice, blocks: Block) -> None:
    """Let rounds be given up at times, and where that goes by what fits, have a reason to be."""
    around = blocks["participation"]
    if not dice.chance(0.2) or (blocks["silence"]["kind"] == "deadline" and dice.careful):
        return
    around["give_up"] = deadline(dice)
    if not dice.careful:
        return
    for group in blocks.get("fleet", []):
        if group["radio"].get("loss", _NONE) != _NONE:
            group["radio"]["tries"] = dice.whole(1, 3)
    if "deadline" in around and "quorum" in around and dice.chance(0.7):
        seconds = float(around["deadline"].partition(" ")[0])
        around["give_up"] = f"{seconds * dice.whole(2, 20):g} s"
    else:
        around.pop("deadline", None)


def noticed(dice: Dice, blocks: Block) -> None:
    """Let the server notice later at times that a client has gone, where something ends rounds."""
    around = blocks["participation"]
    if not dice.chance(0.3):
        return
    kinds = ["heartbeat", "at-once", "deadline"]
    waited = blocks["silence"]["kind"] == "deadline" or "deadline" in around
    if dice.careful and not ((waited and "quorum" not in around) or "give_up" in around):
        kinds.remove("deadline")
    around["noticed"] = dice.one(kinds)
    if around["noticed"] == "heartbeat" or not (dice.careful or dice.chance(0.8)):
        around["heartbeat"] = deadline(dice)


def marina_p(dice: Dice, blocks: Block) -> None:
    """Let MARINA-P run at times where MARINA would, whose needs it has on the other link."""
    if blocks["algorithm"]["kind"] != "marina" or not dice.chance(0.4):
        return
    blocks["algorithm"]["kind"] = "marina-p"
    wire = blocks["wire"]
    wire["up"], wire["down"] = wire.get("down", {}), wire.get("up", {})
    for way in ("up", "down"):
        if not wire[way]:
            del wire[way]


def informed(dice: Dice, blocks: Block, method: type[Algorithm], clients: int) -> None:
    """Let a sample of clients go by what they have sent at times, where all that it needs is there.

    It is drawn last, so that other worlds stay as they were.
    """
    around = blocks["participation"]
    if around["kind"] not in ("uniform", "weighted") or not dice.chance(0.6):
        return
    kinds = ["age"]
    if blocks["problem"]["loss"].get("scale") not in ("sum", "share"):
        kinds += ["oort", "energy-aware", "power-of-choice"]
    if method.combines in ("mean", "sum") and "over" not in around:
        kinds.append("importance")
    if all("carbon" in group for group in blocks.get("fleet", [{}])):
        kinds.append("carbon-aware")
    if len(kinds) > 1 and dice.chance(0.8):
        kinds.remove("age")
    kind = dice.one(kinds if dice.careful else list(_INFORMED))
    around.pop("by", None)
    if kind == "power-of-choice":
        around.pop("over", None)
        around["candidates"] = dice.whole(min(around.get("count", 1), clients), clients)
    around |= {"kind": kind} | _INFORMED[kind](dice)
    ends = "give_up" in around or ("deadline" in around and "quorum" not in around)
    if ends and "heartbeat" not in around and dice.chance(0.4):
        around["noticed"] = "deadline"


def _by_energy(block: Block) -> Block:
    """Count on what is harvested where the weight of the utility is not the default."""
    return block | ({"energy": "harvest"} if "utility" in block else {})


def _utility(dice: Dice) -> Block:
    more: Block = {
        "exploration": dice.percent(0, 100),
        "decay": dice.whole(50, 100) / 100,
        "least_exploration": dice.percent(0, 30),
        "penalty": dice.whole(0, 4),
        "pace": dice.percent(0, 100),
        "pacer_step": dice.percent(0, 50),
        "pacer_window": dice.whole(1, 4),
        "staleness": dice.chance(0.5),
        "oracle": True,
    }
    return dice.options(more, 0.25)


_INFORMED: dict[str, Callable[[Dice], Block]] = {
    "age": lambda dice: dice.options({"draw": dice.one(["oldest", "weighted"])}, 0.5),
    "oort": _utility,
    "energy-aware": lambda dice: _by_energy(
        _utility(dice) | dice.options({"utility": "40 %"}, 0.4)
    ),
    "power-of-choice": lambda dice: dice.options(
        {"losses": dice.one(["asked", "last"]), "oracle": True}, 0.4
    ),
    "importance": lambda dice: dice.options(
        {"by": dice.one(["norm", "samples"]), "plain": "30 %", "oracle": True}, 0.4
    ),
    "carbon-aware": lambda dice: (
        dice.options({"draw": dice.one(["cleanest", "weighted"])}, 0.5)
        | ({"below": "300 g/kWh", "patience": "1 h"} if dice.chance(0.3) else {})
    ),
}


_NONE = {"kind": "none"}


UNSOLVED = ("mlp", "neyman-pearson")
"""Losses of which no optimum is known that gaps could be measured from."""


def stop(dice: Dice, fleet: list[Block], problem: Block) -> Block:
    """Draw when the run ends: after a few rounds, or before."""
    batteries = sum(group["count"] for group in fleet if "battery" in group)
    rules: Block = {
        "time": dice.quantity(1e-2, 1e7 if dice.slow else 1e4, "s"),
        "bits": dice.quantity(1e3, 1e6, "bit"),
        "energy": dice.quantity(1e-3, 1e4, "J"),
    }
    if problem.get("optimum") != "unknown" and problem["loss"]["kind"] not in UNSOLVED:
        rules["gap"] = dice.size(1e-6, 10)
    rules["objective"] = dice.size(1e-3, 10)
    if batteries:
        rules["batteries"] = dice.whole(1, batteries)
    rules["patience"] = patience(dice)
    return {"rounds": dice.whole(1, 6), **dice.options(rules, 0.15)}


def patience(dice: Dice) -> Block:
    """Draw how long the objective may stay as it is."""
    more = {"tolerance": dice.size(1e-6, 1.0), "measure": "objective"}
    drawn = {"rounds": dice.whole(1, 4), **dice.options(more, 0.5)}
    return drawn if "tolerance" in drawn else drawn | {"least": 1e-3}
