"""What SimGrid says: a platform and its messages in, as JSON, and when each has arrived out.

It is run by compare.py, in a process of its own for every platform, by whatever interpreter
has SimGrid's Python module: an engine cannot be used twice.
"""

import importlib
import json
import sys
from typing import Any

MODELS = {
    # Plain max-min fairness: no acknowledgements, and no window where latencies are 0.
    "fluid": ["--cfg=network/model:CM02", "--cfg=network/crosstraffic:0"],
    "lv08": ["--cfg=network/model:LV08"],
}


def arrivals(simgrid: Any, job: dict[str, Any]) -> list[float]:
    """Return when each message has arrived, s.

    Args:
        simgrid: the module.
        job: `model`; `links` (pairs of bandwidth in byte/s and latency in s); `routes` (of
            every lane, the uplinks before the downlinks, the links); `messages` (triples of
            start in s, lane, and bytes).
    """
    engine = simgrid.Engine(["compare", "--log=root.thresh:critical", *MODELS[job["model"]]])
    zone = simgrid.NetZone.create_full_zone("zone")
    links = [
        zone.create_link(f"link-{n}", [bandwidth]).set_latency(latency).seal()
        for n, (bandwidth, latency) in enumerate(job["links"])
    ]
    server = zone.create_host("server", [1e9])
    clients = [zone.create_host(f"client-{n}", [1e9]) for n in range(len(job["routes"]) // 2)]
    ends = [(client, server) for client in clients] + [(server, client) for client in clients]
    for (sender, receiver), route in zip(ends, job["routes"], strict=True):
        hops = [simgrid.LinkInRoute(links[link]) for link in route]
        nodes = sender.netpoint, receiver.netpoint, None, None
        zone.add_route(*nodes, hops, False)  # noqa: FBT003 - one direction only
    zone.seal()
    arrived = [-1.0] * len(job["messages"])

    def send(number: int) -> None:
        start, lane, size = job["messages"][number]
        simgrid.this_actor.sleep_until(start)
        simgrid.Comm.sendto_async(*ends[lane], size).wait()
        arrived[number] = simgrid.Engine.clock

    for number in range(len(arrived)):
        simgrid.Actor.create(f"message-{number}", server, send, number)
    engine.run()
    return arrived


if __name__ == "__main__":
    module = importlib.import_module("simgrid")
    result = {"version": module.simgrid_version, "arrivals": arrivals(module, json.load(sys.stdin))}
    sys.stdout.write(json.dumps(result))
