"""Draws of networks: every topology, discipline, model of sharing, and kind of broadcast."""

from collections.abc import Callable

from fedsim.physics.radios.presets import LORA

from .dice import Block, Dice
from .radios import end_device, latency, lora, losses, rate, shannon

DISCIPLINES = ("fair", "fifo", "slotted")


def _discipline(dice: Dice) -> Block:
    return dice.options({"discipline": dice.one(DISCIPLINES)}, 0.5)


def _server(dice: Dice) -> Block:
    link = {"downlink": rate(dice), "uplink": rate(dice), "latency": latency(dice)}
    return {"server": dice.options(link, 0.6) | _discipline(dice)}


def _link(dice: Dice) -> Block:
    return dice.options({"rate": rate(dice), "latency": latency(dice)}, 0.7) | _discipline(dice)


def star(dice: Dice, clients: int) -> Block:
    return _server(dice)


def tree(dice: Dice, clients: int) -> Block:
    return {"gateways": dice.whole(1, clients), "gateway": _link(dice), **_server(dice)}


def graph(dice: Dice, clients: int) -> Block:
    if dice.chance(0.2):
        return {"path": "net.csv"}
    nodes = ["server", "hub", "mast"][: dice.whole(1, 3)]
    joined = [(dice.one(nodes[:at]), nodes[at]) for at in range(1, len(nodes))]
    joined += [(dice.one(nodes), f"client-{client}") for client in range(clients)]
    if dice.chance(0.3) and joined[-1][0] != "server":
        joined.append(("server", joined[-1][1]))
    return {"edges": [_edge(dice, *ends) for ends in joined]}


def _edge(dice: Dice, source: str, target: str) -> Block:
    duplex = dice.options({"duplex": "half"}, 0.2)
    return {"source": source, "target": target, **_link(dice), **duplex}


TOPOLOGIES: dict[str, Callable[[Dice, int], Block]] = {"star": star, "tree": tree, "graph": graph}


def windows(dice: Dice, blocks: Block) -> None:
    """Let TCP's windows share the links at times, where these are shared by all."""
    network = blocks["network"]
    if not dice.chance(0.15) or "peers" in network:
        return
    network["model"] = "tcp"
    network.pop("broadcast", None)
    for link in (network.get("server", {}), network.get("gateway", {}), *network.get("edges", [])):
        link.pop("discipline", None)
    parameters = {
        **dice.options({"variant": "newreno"}, 0.5),
        **dice.options({"discipline": "fq-codel"}, 0.3),
        **dice.options({"connections": "new"}, 0.5),
        **dice.options({"idle_restart": False}, 0.3),
        **dice.options({"queue": dice.whole(1, 200)}, 0.7),
        **dice.options({"initial_window": dice.whole(1, 40)}, 0.3),
        **dice.options({"min_rto": dice.quantity(0.01, 3, "s")}, 0.3),
        **dice.options({"delayed_ack": dice.quantity(1e-3, 0.5, "s")}, 0.3),
        **dice.options({"headers": f"{dice.whole(20, 80)} B"}, 0.2),
    }
    if "queue" not in parameters:
        parameters.update(dice.options({"queue_bdp": dice.whole(1, 16) / 4}, 0.5))
    if parameters:
        network["tcp"] = parameters


def stacks(dice: Dice, blocks: Block) -> None:
    """Let TCP be ns-3's at times, where it is given."""
    network = blocks["network"]
    if network.get("model") == "tcp" and dice.chance(0.3):
        network.setdefault("tcp", {})["stack"] = "ns-3"


def gateway(dice: Dice, blocks: Block) -> None:
    """Let LoRa radios share the air around a gateway at times, in a star."""
    network = blocks["network"]
    fluid = network["topology"] == "star" and network.get("model", "fluid") == "fluid"
    if not dice.chance(0.12) or not fluid or "peers" in network or not blocks.get("fleet"):
        return
    network.pop("broadcast", None)
    network["lora"] = dice.options(
        {
            "channels": dice.whole(1, 8),
            "capture": dice.one([None, "0 dB", "3 dB"]),
            "demodulators": dice.whole(1, 8),
            "acknowledge": True,
            "noise_figure": "3 dB",
            "delay": dice.quantity(0.1, 5, "s"),
            "rx2_spreading": dice.whole(7, 12),
            "rx1_duty": dice.percent(1, 100),
            "rx2_duty": dice.percent(1, 100),
            "adr_frames": dice.whole(1, 20),
            "adr_margin": f"{dice.whole(0, 20)} dB",
        },
        0.4,
    )
    if "capture" not in network["lora"]:
        network["lora"] |= dice.options({"isolation": f"{dice.whole(5, 25)} dB"}, 0.5)
    dice.one(blocks["fleet"])["radio"] = {
        "kind": dice.one(list(LORA)),
        **lora(dice),
        **end_device(dice),
        **losses(dice),
    }


def cells(dice: Dice, blocks: Block) -> None:
    """Let radios of LTE and 5G share the time of cells at times, in a star."""
    network = blocks["network"]
    fluid = network["topology"] == "star" and network.get("model", "fluid") == "fluid"
    if not dice.chance(0.12) or not fluid or "peers" in network or not blocks.get("fleet"):
        return
    network.pop("broadcast", None)
    block: Block = {"clients": dice.whole(1, 6), "load": dice.percent(0, 90)}
    network["cell"] = dice.options(block, 0.6)
    kind = dice.one(["lte", "lte-2020", "5g-low-drx", "shannon"])
    own: Block = shannon(dice) if kind == "shannon" else {"latency": latency(dice)}
    if kind == "shannon" and dice.chance(0.8):
        own["control"] = dice.options(
            {
                "target": f"-{dice.whole(60, 120)} dBm",
                "compensation": dice.percent(40, 100),
                "efficiency": dice.percent(10, 100),
            }
        )
    dice.one(blocks["fleet"])["radio"] = {"kind": kind, **own, **losses(dice)}
    for group in blocks["fleet"]:  # a trace, or no limit, has no place in a cell
        radio = group["radio"]
        if isinstance(radio, dict) and radio["kind"].startswith(("lte", "5g")):
            for key in ("up_trace", "down_trace", "up", "down"):
                radio.pop(key, None)


def shared_air(dice: Dice, blocks: Block) -> None:
    """Let clients share the air at times, where all radios have the rate of a modulation."""
    network = blocks["network"]
    apart = {"peers", "lora", "cell"} & {*network}
    fits = network["topology"] != "graph" and not apart and "fleet" in blocks
    if not (dice.chance(0.15) and fits and network.get("model", "fluid") == "fluid"):
        return
    network.pop("broadcast", None)
    network["wifi"] = {
        **dice.options({"standard": dice.one(("n", "ac", "ax"))}, 0.7),
        **dice.options({"width": dice.one(("20 MHz", "40 MHz"))}, 0.5),
        **dice.options({"streams": dice.whole(2, 8)}, 0.4),
        **dice.options({"transport": "udp"}, 0.4),
        **dice.options({"connections": "kept"}, 0.4),
        **dice.options({"aggregate": f"{dice.whole(1, 70_000)} B"}, 0.3),
        **dice.options({"cells": dice.whole(1, 4)}, 0.3),
    }
    for group in blocks["fleet"]:
        rates = {way: dice.quantity(1, 60, "Mbit/s") for way in ("up", "down")}
        group["radio"] = {"kind": dice.one(("wifi", "wifi-6")), **rates}


def network(dice: Dice, clients: int) -> Block:
    """Draw what lies between clients and server."""
    kind = dice.one(list(TOPOLOGIES))
    block = {"topology": kind, **TOPOLOGIES[kind](dice, clients)}
    if dice.chance(0.2):
        block["model"] = "lv08"
    if dice.chance(0.2):
        block["broadcast"] = "cell"
    return block
