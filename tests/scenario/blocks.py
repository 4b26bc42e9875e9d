"""Blocks of every kind that a scenario can have."""

from typing import Any

Blocks = dict[str, Any]

PHONE = {"count": 4, "device": "phone-mid", "radio": "lte"}


def group(**changes: Any) -> Blocks:
    """Return a fleet of one group of four phones, with some of its keys changed."""
    return {"fleet": [PHONE | changes]}


def radio(**changes: Any) -> Blocks:
    """Return that fleet with a wifi radio, changed."""
    return group(radio={"kind": "wifi"} | changes)


def battery(**changes: Any) -> Blocks:
    """Return that fleet on its own battery, changed."""
    return group(battery=changes)


SHANNON = {
    "kind": "shannon",
    "bandwidth": "1 MHz",
    "power": "10 mW",
    "server_power": "1 W",
    "distance": "200 m",
}
FIRST_ORDER = {"kind": "first-order", "up": "1 Mbit/s", "down": "1 Mbit/s", "distance": "50 m"}
CYCLES = {"kappa": 1e-28, "cycles_per_sample": 1e4, "frequency": "1 GHz"}
EDGES = [{"source": "server", "target": f"client-{n}", "rate": "5 Mbit/s"} for n in range(4)]

DCGD = {"algorithm": {"kind": "dcgd", "step_size": 0.1}}
TOP = {"kind": "top-k", "fraction": 0.1}


def wire(way: str, compressor: Blocks | None = None, feedback: str = "none") -> Blocks:
    """Return a wire that compresses one way, top-k where nothing else is said."""
    return {"wire": {way: {"compressor": compressor or TOP, "error_feedback": feedback}}}


GOOD: dict[str, Blocks] = {
    "nothing": {},
    "lognormal": group(device={"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 0.3}}),
    "shifted-exponential": group(
        device={
            "kind": "pi-4",
            "slowdown": {"kind": "shifted-exponential", "shift": 1, "rate": 2},
        }
    ),
    "no slowdown": group(device={"kind": "yang-2021", "slowdown": {"kind": "none"}}),
    "cycles": group(device={"kind": "custom", "idle": "0 W"} | CYCLES),
    "its own battery": group(device={"kind": "orin-nano", "battery": "50 Wh"}, battery={}),
    "states": radio(kind="custom", up="1 Mbit/s", down="1 Mbit/s", latency="0 s", base="0 W",
                    energy_up="0 J/bit", energy_down="0 J/bit", send="50 mW", receive="40 mW"),
    "lora": group(radio="lora-sf7"),
    "lora in a block": group(radio={"kind": "lora-sf12", "duty": "10 %", "coding": 4}),
    "nb-iot with its states": group(radio="nb-iot-edrx"),
    "nb-iot in a block": group(
        radio={"kind": "nb-iot-psm", "tau": "1 h", "repetitions": 8, "drx_cycle": "0 s"}
    ),
    "lte with its states": group(radio="lte-drx"),
    "5g in a block": group(radio={"kind": "5g-low-drx", "inactive": "5 s", "paging_on": "0 s"}),
    "shannon": group(radio=SHANNON),
    "shannon in full": group(
        radio=SHANNON | {"shadowing": "0 dB", "noise": "-170 dBm/Hz", "most": "unlimited",
                         "send": "2 W", "attenuation": "60 %"}
    ),
    "first-order": group(radio=FIRST_ORDER | {"amplifier": "10 pJ/bit/m^2"}),
    "traces": radio(
        up_trace={"kind": "mahimahi", "path": "a.up", "shift": "random"},
        down_trace={"kind": "csv", "path": "b.csv", "repeat": False},
    ),
    "traces of others": radio(
        up_trace={"kind": "ucc-5g", "path": "ucc.csv", "direction": "up"},
        down_trace={"kind": "lumos5g", "path": "lumos.csv", "run": 3},
    ),
    "further traces of others": radio(
        up_trace={"kind": "monroe", "path": "flows.json", "direction": "up", "repeat": False},
        down_trace={"kind": "pensieve", "path": "pensieve.txt", "shift": "random"},
    ),
    "no loss": radio(loss={"kind": "none"}, tries="unlimited"),
    "independent": radio(loss={"kind": "independent", "rate": "1 %"}, tries=3),
    "gilbert-elliott": radio(loss={"kind": "gilbert-elliott", "p": "1 %", "r": "30 %"}),
    "battery": battery(),
    "battery in full": battery(
        capacity="2 Wh", charge="80 %", charge_efficiency="90 %", discharge_efficiency="90 %",
        self_discharge="3 %/month", cutoff="10 %", threshold="15 %", restart="30 %",
    ),
    "no charging": battery(charging={"kind": "none"}),
    "constant": battery(charging={"kind": "constant", "power": "5 W"}),
    "daily": battery(charging={"kind": "daily", "power": "5 W", "start": "1 h", "end": "24 h"}),
    "harvest": battery(charging={"kind": "harvest", "path": "sun.csv", "shift": "random"}),
    "charged as FLASH says": battery(
        charging={"kind": "flash", "path": "states.json", "power": "5 W", "shift": "random"}
    ),
    "a country": group(carbon="NO"),
    "a country in a block": group(carbon={"kind": "IN", "intensity": "0.7 kg/kWh"}),
    "a carbon intensity": group(carbon={"kind": "constant", "intensity": "0 g/kWh"}),
    "hourly": group(
        carbon={"kind": "hourly", "path": "grid.csv", "start": "30 min", "repeat": False}
    ),
    "always": group(availability={"kind": "always"}),
    "bernoulli": group(availability={"kind": "bernoulli", "share": "30 %"}),
    "markov": group(
        availability={"kind": "markov", "on": "2 h", "off": "30 min", "amplitude": "80 %"}
    ),
    "intervals": group(availability={"kind": "intervals", "path": "there.csv"}),
    "fedscale": group(availability={"kind": "fedscale", "path": "there.pickle"}),
    "flash": group(availability={"kind": "flash", "path": "states.json", "when": ["charging"]}),
    "star": {"network": {"topology": "star", "server": {"discipline": "fifo"}, "model": "lv08"}},
    "tree": {
        "network": {
            "topology": "tree",
            "gateways": 2,
            "gateway": {"rate": "3 Mbit/s", "latency": "2 ms", "discipline": "slotted"},
            "broadcast": "cell",
        }
    },
    "graph": group() | {"network": {"topology": "graph", "edges": EDGES}},
    "graph of a file": {"network": {"topology": "graph", "path": "net.graphml"}},
    "full": {"participation": {"kind": "full", "deadline": "20 s", "quorum": "50 %"}},
    "uniform": {"participation": {"kind": "uniform", "count": 3, "over": 1.3}},
    "weighted": {"participation": {"kind": "weighted", "share": "10 %", "least_charge": "30 %"}},
    "poisson": {"participation": {"kind": "poisson", "count": 3}},
    "age": {"participation": {"kind": "age", "count": 3, "draw": "weighted"}},
    "oort": {"participation": {"kind": "oort", "share": "50 %", "penalty": 1.0}},
    "energy-aware": battery() | {"participation": {"kind": "energy-aware", "count": 3}},
    "power-of-choice": {
        "participation": {"kind": "power-of-choice", "count": 2, "candidates": 4, "losses": "last"}
    },
    "importance": {
        "algorithm": {"kind": "fedavg", "step_size": 0.1, "local_steps": 2},
        "participation": {"kind": "importance", "count": 3, "by": "samples"},
    },
    "carbon-aware": group(carbon="FR")
    | {"participation": {"kind": "carbon-aware", "count": 3, "draw": "weighted"}},
    "asynchronous": {"participation": {"kind": "asynchronous", "buffer": 2, "concurrency": 4}},
    "stop at batteries": battery() | {"stop": {"batteries": 4}},
    "deadline": {"silence": {"kind": "deadline", "after": "3 s"}},
    "compressed up": wire("up", TOP),
    "compressed down, held by all": wire("down", {"kind": "scaled-sign"}, "ef21"),
    "compressed for a cohort": wire("down", {"kind": "low-rank", "rank": 2}, "none")
    | {"participation": {"kind": "uniform", "count": 3}},
    "compressed both ways": DCGD
    | {
        "wire": {
            "values": "bfloat16",
            "up": {"compressor": {"kind": "rand-k", "count": 5, "indices": "explicit"},
                   "error_feedback": "ef21"},
            "down": {"compressor": {"kind": "qsgd", "levels": 4}},
        }
    },
    "what goes away is taken back": DCGD | wire("up", None, "ef21") | battery(),
    "what is lost is taken back": DCGD
    | wire("up", {"kind": "threshold", "threshold": 0.1}, "ef")
    | radio(loss={"kind": "independent", "rate": "1 %"}, tries=1),
    "what is sent again is not lost": DCGD
    | wire("up", {"kind": "terngrad"}, "ef21")
    | radio(loss={"kind": "independent", "rate": "1 %"}),
    "few bits": wire("up", {"kind": "dithered", "bits": 4}),
    "floats of four bits": wire("up", {"kind": "e3m0"}),
    "powers of two": wire("up", {"kind": "natural"}),
    "many levels": wire("up", {"kind": "qsgd"}),
}  # fmt: skip
"""Between them they name every kind."""
