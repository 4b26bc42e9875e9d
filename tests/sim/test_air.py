"""Messages that share the air of a Wi-Fi cell: closed forms, the anomaly, and invariances."""

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.physics.airtime import air, plan
from fedsim.physics.cells import CellSharing
from fedsim.physics.network_models import Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.channel import Framing
from fedsim.physics.topology import star
from fedsim.physics.wifi import Wifi
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import layer
from tests.tiers import every

PACKETS = Framing(52, 1500)


class Cell:
    """A cell, or several, and the messages in it.

    Args:
        rates: of the radios, both ways, bit/s.
        server: rate of the server's link, bit/s.
        parameters: of the block.
    """

    def __init__(self, rates: Sequence[float], server: float = inf, **parameters: Any) -> None:
        self.law = Wifi(**{"standard": "n", "transport": "udp", **parameters})
        self.calendar, self.rates = Calendar(), list(rates)
        self.arrived = dict[tuple[int, bool], float]()
        self.on_air = dict[tuple[int, bool], tuple[float, float]]()
        self.collided = dict[int, float]()
        laws = [ConstantRate(rate) for rate in rates]
        site = Site(
            calendar=self.calendar,
            topology=star(len(laws), uplink=server, downlink=server),
            up=laws,
            down=laws,
            framing=lambda _: PACKETS,
            on_air=self._air,
            collided=self._collide,
        )
        up, down = layer("wifi", self.law, layer("fluid")).bearers(site)
        self.bearers = {True: up, False: down}

    def _air(self, client: int, up: bool, sent: float, answered: float) -> None:
        self.on_air[client, up] = sent, answered

    def _collide(self, client: int, seconds: float) -> None:
        self.collided[client] = seconds

    def send(self, client: int, size: int, at: float = 0.0, *, up: bool = True) -> None:
        """Start a message of so many bytes, headers included."""
        self.calendar.at(at, self._begin, (client, size, up))

    def _begin(self, what: tuple[int, int, bool]) -> None:
        client, size, up = what
        bearer: Any = self.bearers[up][client]
        bearer.start(8 * size, self.rates[client], self._end, (client, up))

    def _end(self, of: tuple[int, bool]) -> None:
        self.arrived[of] = self.calendar.now

    def run(self) -> dict[tuple[int, bool], float]:
        """Go on until nothing happens any more; return when messages arrived."""
        self.calendar.run()
        return self.arrived

    def seconds(self, client: int, size: int, number: int = 1, *, up: bool = True) -> float:
        """Return what a message takes of the air where so many like it are in it, s."""
        timing = self.law.timing(self.rates[client])
        made = plan(self.law, 8 * size, 1500, timing, timing, up=up)
        return air({made: number}).terms[made].airtime * 8 * size


@every("transport", ["udp", "tcp"])
@every("up", [True, False])
@every("number", [1, 2, 7, 30])
def test_equal_messages_end_together_when_the_air_has_had_all(
    transport: str, up: bool, number: int
) -> None:
    cell = Cell([65e6] * number, transport=transport)
    for client in range(number):
        cell.send(client, 200_000, up=up)
    expected = number * cell.seconds(0, 200_000, number, up=up)
    assert list(cell.run().values()) == pytest.approx([expected] * number)


def test_a_slow_station_slows_all_others() -> None:
    """The anomaly of Heusse et al.: with one packet a turn all have the rate of the slowest."""
    fast, slow, size = 65e6, 6.5e6, 150_000
    together = Cell([fast] * 4, aggregate="1 B")
    mixed = Cell([fast] * 3 + [slow], aggregate="1 B")
    for client in range(4):
        together.send(client, size)
        mixed.send(client, size)
    alone = max(together.run().values())
    times = mixed.run()
    assert times[0, True] == times[1, True] == pytest.approx(times[3, True])
    # Three packets of 228 us and one of 1,932 us take what four of 228 us do not.
    assert times[0, True] / alone == pytest.approx((3 * 228 + 1936) / (4 * 228), rel=0.25)
    assert size * 8 / times[0, True] < slow


def test_aggregates_are_limited_in_time_which_bounds_the_anomaly() -> None:
    """With 5.484 ms a turn, a slow station takes a turn in four, and not nine tenths of the air."""
    mixed = Cell([65e6] * 3 + [6.5e6])
    for client in range(4):
        mixed.send(client, 450_000)
    times = mixed.run()
    assert times[0, True] < 0.5 * times[3, True]


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(5)), st.sampled_from(["udp", "tcp"]))
def test_the_order_in_which_messages_start_at_once_does_not_matter(
    order: list[int], transport: str
) -> None:
    sizes = [3_000, 40_000, 90_000, 90_000, 400_000]
    rates = [65e6, 6.5e6, 26e6, 65e6, 65e6]
    found = []
    for clients in (range(5), order):
        cell = Cell(rates, transport=transport)
        for client in clients:
            cell.send(client, sizes[client])
        found.append(cell.run())
    for key, time in found[0].items():
        assert found[1][key] == pytest.approx(time, rel=1e-9)


def test_who_comes_later_shares_from_then_on() -> None:
    """The air that a message takes: all of it alone, then what contention leaves."""
    cell = Cell([65e6] * 2, transport="udp")
    first, both = cell.seconds(0, 1_000_000), cell.seconds(0, 1_000_000, 2)
    cell.send(0, 1_000_000)
    cell.send(1, 1_000_000, at=first / 2)
    times = cell.run()
    shared = 2 * both / 2  # half of the first is left, and as much of the second passes
    assert times[0, True] == pytest.approx(first / 2 + shared)
    assert times[1, True] == pytest.approx(first / 2 + shared + first / 2)


def test_a_slow_link_behind_the_cell_holds_it_up() -> None:
    cell = Cell([65e6] * 4, server=1e6)
    for client in range(4):
        cell.send(client, 100_000)
    assert max(cell.run().values()) == pytest.approx(4 * 8 * 100_000 / 1e6)


def test_cells_have_channels_of_their_own() -> None:
    one = Cell([65e6] * 6)
    two = Cell([65e6] * 6, cells=2)
    three = Cell([65e6] * 6, cells=3)
    for cell in (one, two, three):
        for client in range(6):
            cell.send(client, 300_000)
        cell.run()
    for cell, members in ((two, 3), (three, 2)):
        expected = members * cell.seconds(0, 300_000, members)
        assert list(cell.arrived.values()) == pytest.approx([expected] * 6)
    assert max(one.arrived.values()) > max(two.arrived.values()) > max(three.arrived.values())


def test_both_directions_share_the_air() -> None:
    cell = Cell([65e6] * 2)
    cell.send(0, 500_000)
    cell.send(1, 500_000, up=False)
    alone = cell.seconds(0, 500_000)
    assert max(cell.run().values()) > 1.9 * alone


def test_a_client_pays_for_what_it_has_on_the_air_and_for_what_collides() -> None:
    cell = Cell([65e6] * 8)
    timing = cell.law.timing(65e6)
    size = 28 * 1500
    for client in range(8):
        cell.send(client, size)
    cell.run()
    sent, answered = cell.on_air[0, True]
    assert sent * 8 * size == pytest.approx(timing.duration(28, 1500))
    assert answered == 0.0  # over UDP there is nothing but what the channel acknowledges
    made = plan(cell.law, 8 * size, 1500, timing, timing, up=True)
    vain = air({made: 8}).attempts - 1.0
    assert cell.collided == pytest.approx(dict.fromkeys(range(8), vain * timing.duration(28, 1500)))


def test_the_receiver_of_tcp_is_on_the_air_with_its_acknowledgements() -> None:
    cell = Cell([65e6], transport="tcp")
    cell.send(0, 100_000, up=False)
    cell.run()
    sent, answered = cell.on_air[0, False]
    assert 0.0 < answered < 0.2 * sent


@pytest.mark.parametrize("shared", ["wifi", "cell"])
def test_a_link_that_cells_and_others_use_is_one_link(shared: str) -> None:
    """The server's link holds all clients up together, in whichever cell they are."""
    calendar, arrived = Calendar(), list[float]()
    rates = [ConstantRate(20e6)] * 4
    block = CellSharing() if shared == "cell" else Wifi(standard="n", transport="udp")
    site = Site(
        calendar=calendar,
        topology=star(4, uplink=4e6),
        up=rates,
        down=rates,
        cellular=[True, True, False, False],
        framing=lambda _: PACKETS,
    )
    up, _ = layer(shared, block, layer("fluid")).bearers(site)
    for client in range(4):
        bearer: Any = up[client]
        bearer.start(1e6, 20e6, lambda _: arrived.append(calendar.now), client)
    calendar.run()
    assert arrived == pytest.approx([4 * 1e6 / 4e6] * 4)  # evenly, whatever a cell's weights are


def test_radios_of_lte_are_in_no_cell_of_wifi() -> None:
    calendar, arrived = Calendar(), dict[int, float]()
    law, rates = Wifi(standard="n", transport="udp"), [ConstantRate(65e6)] * 3
    site = Site(
        calendar=calendar,
        topology=star(3),
        up=rates,
        down=rates,
        cellular=[True, False, True],
        framing=lambda _: PACKETS,
    )
    up, _ = layer("wifi", law, layer("fluid")).bearers(site)

    def arrive(client: int) -> None:
        arrived[client] = calendar.now

    for client in range(3):
        bearer: Any = up[client]
        bearer.start(1e6, 65e6, arrive, client)
    calendar.run()
    assert arrived[0] == arrived[2] == pytest.approx(1e6 / 65e6)
    assert arrived[1] > 1.05 * arrived[0]
