"""The network: from what a scenario says to links and routes that lead to every client."""

import re
from collections.abc import Sequence

from fedsim.building.files import Files
from fedsim.building.findings import Findings
from fedsim.errors import DataError
from fedsim.physics.networks import Network
from fedsim.physics.topology import Topology

_CLIENT = re.compile(r"client-(\d+)")


def topology(
    network: Network, clients: Sequence[str], files: Files, findings: Findings
) -> Topology | None:
    """Return the links between the clients' radios and the server.

    Args:
        network: what was written.
        clients: what each client is, for messages.
        files: where a file of edges is read.
        findings: takes what is wrong with them; the result is None then.
    """
    links = None
    with findings.at(f"network.{network.written}"):
        try:
            links = _led(network, network.links(len(clients), files.graph), len(clients))
        except DataError as error:
            if error.key != "network":  # what is written is quoted as it stands
                raise
            raise DataError("network", _worded(str(error), clients)) from error
    return links


def _led(network: Network, made: object, clients: int) -> Topology:
    """Return the links of a network if they lead to every client.

    Raises:
        DataError: they do not; those of fedsim's own networks always do.
    """
    kind = network.topology
    if not isinstance(made, Topology):
        text = f"the links of {kind} are a {type(made).__name__}; return a Topology, such as star's"
        raise DataError("network", text)
    if made.paths is not None and not (made.up or made.down):
        return made  # among peers there is no server
    if not len(made.up) == len(made.down) == clients:
        text = f"{len(made.up)} ways up and {len(made.down)} down, and there are {clients} clients"
        raise DataError("network", f"the links of {kind} have {text}; give one each of each")
    number = len(made.links)
    if wrong := [link for way in (*made.up, *made.down) for link in way.links if link >= number]:
        text = f"a way of {kind} takes link {wrong[0]}, and there are {number}, counted from 0"
        raise DataError("network", text)
    return made


def _worded(text: str, clients: Sequence[str]) -> str:
    """Return a message in which the clients are said to be what they are."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return f"{match[0]} ({clients[number]})" if number < len(clients) else match[0]

    return _CLIENT.sub(named, text)
