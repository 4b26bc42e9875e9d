"""What does a fleet cost of which nearly nobody is asked?

Of N clients 100 are drawn a round; the problem costs nothing and its loss is one for all, so
that what is measured is the world: how long it takes to make one, what memory it takes a client,
and what a round takes. Each size runs in a process of its own.

    python analysis/benchmarks/large_fleet.py
    python analysis/benchmarks/large_fleet.py --against CHECKOUT --largest 100000

With --against the same is measured of another checkout's fedsim, and compared.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
ASKED, ROUNDS = 100, 10
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def peak() -> int:
    """Return the peak of this process's resident memory so far, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measured(clients: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Run a fleet of so many clients, with its event log and its audit.

    Returns:
        "start": seconds until the world is made; "round": seconds a round; "end": seconds for
        closing and auditing; "bytes": the peak of memory, above what the imports took, a client.
    """
    cost = importlib.import_module("client_round")
    setup = setup_of(clients, rounds, cost)
    before, start = peak(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        with cost.Book(Path(folder), clients) as book:
            world = cost.World(setup, book)
            made = time.perf_counter()
            reason = world.run()
            ran = time.perf_counter()
            world.close(reason)
        ended = time.perf_counter()
    return {
        "start": made - start,
        "round": (ran - made) / rounds,
        "end": ended - ran,
        "bytes": 1024 * (peak() - before) / clients,
    }


def setup_of(clients: int, rounds: int, cost: Any) -> Any:  # noqa: ANN401 - of either checkout
    """Return what the world is made of: one member, so many times over."""
    radio = cost.Radio.in_si(
        kind="custom", up=1e6, down=2e6, latency=0.01, energy_up=1e-7, energy_down=1e-7, base=1.0
    )
    member = cost.Member(cost.DEVICE, radio, radio.rates({}), cost.FREE)
    policies = importlib.import_module("fedsim.protocol.participation")
    # In older checkouts policies and stop rules are classes apart from their blocks.
    older = not hasattr(policies, "UniformParticipation")
    sample = policies.Participation if older else policies.UniformParticipation
    stop = cost.StopRules if older else cost.Stop
    return cost.Setup(
        algorithm=cost.Echo(step_size=1.0),
        fleet=[member] * clients,
        initial=cost.NOTHING,
        smoothness=lambda: cost.NOTHING,
        evaluate=lambda _: 1.0,
        optimum=0.0,
        packer_up=lambda client, field, number: cost.PACKER,  # noqa: ARG005 - the same for all
        packer_down=lambda field, number: cost.PACKER,  # noqa: ARG005 - the same for all
        header_bits=cost.HEADER_BITS,
        rng=partial(cost.stream, 1),
        participation=sample(count=min(ASKED, clients)),
        stop=stop(rounds=rounds),
    )


def child(clients: int, rounds: int, checkout: Path) -> dict[str, float]:
    """Measure in a process of its own, with the fedsim of a checkout."""
    command = [sys.executable, str(HERE), "--one", str(clients), "--rounds", str(rounds)]
    command += ["--against", str(checkout)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    figures: dict[str, float] = json.loads(out)
    return figures


def line(clients: int, of: dict[str, float]) -> str:
    """Return a line of the table."""
    return (
        f"{clients:>9,}  {of['start']:>9.3f} s  {1e3 * of['round']:>9.2f} ms"
        f"  {of['end']:>9.3f} s  {of['bytes']:>9.0f} B"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--one", type=int, help="measure this many clients, in this process")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--against", type=Path, help="another checkout")
    given = parser.parse_args()
    if given.one:
        checkout = given.against or HERE.parents[2]
        sys.path[:0] = [str(checkout), str(checkout / "analysis/benchmarks")]
        print(json.dumps(measured(given.one, given.rounds)))
        return
    print("  clients     start-up      a round   close, audit   memory a client")
    for clients in (size for size in SIZES if size <= given.largest):
        now = child(clients, given.rounds, HERE.parents[2])
        print(line(clients, now))
        if given.against is not None:
            then = child(clients, given.rounds, given.against)
            ratios = ", ".join(f"{key} {then[key] / max(now[key], 1e-9):.1f}" for key in now)
            print(f"{line(clients, then)}  there\n{'':>9}  there to here: {ratios}")


if __name__ == "__main__":
    main()
