"""Cells of LTE and 5G: equal shares of time, as closed forms, and energy that follows distance."""

from math import log2, log10
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.physics.cells import CellSharing
from fedsim.physics.radios import ShannonRadio
from tests.tiers import every

from .links import ServerLink
from .radios import RadioModel
from .stars import Network, Sent


class CellRadio(RadioModel):
    """A radio of tests that is in a cell."""

    @property
    def cellular(self) -> bool:
        return True


def ends(
    rates: list[float],
    bits: list[int],
    server: ServerLink | None = None,
    up: bool = True,
    **cell: Any,
) -> list[float]:
    """Let all clients send at time 0; return when each message arrives."""
    radios = [CellRadio(up=rate, down=rate) for rate in rates]
    around = Network(radios, server, cell=CellSharing.model_validate(cell))
    around.send([Sent(0.0, client, size, up) for client, size in enumerate(bits)])
    around.env.run()
    arrived = {message.client: message.t for message in around.arrived}
    return [arrived[client] for client in range(len(rates))]


def equal_times(rates: list[float], bits: list[int]) -> list[float]:
    """Return the closed form: messages need a_i = b_i/R_i of time, and n share it equally.

    In the order of a_i the k-th ends once each of those that remain has had a_k: all later ones
    have had as much, and all earlier ones what they needed.
    """
    needs = [size / rate for size, rate in zip(bits, rates, strict=True)]
    return [sum(min(other, own) for other in needs) for own in needs]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([1e3, 3e3, 1e5, 7e6]), st.integers(1, 10**6)), max_size=8),
    st.booleans(),
)
def test_clients_share_time_equally(clients: list[tuple[float, int]], up: bool) -> None:
    rates, bits = [rate for rate, _ in clients], [size for _, size in clients]
    assert ends(rates, bits, up=up) == pytest.approx(equal_times(rates, bits), rel=1e-9)


def test_one_far_client_takes_its_share_of_time_and_no_more() -> None:
    """Nine near clients at 10 Mbit/s and one at 10 kbit/s: the near ones are slower by 10/9."""
    near = ends([1e7] * 9, [10**7] * 9)
    both = ends([1e7] * 9 + [1e4], [10**7] * 9 + [10**7])
    assert near == pytest.approx([9.0] * 9)
    assert both[:9] == pytest.approx([10.0] * 9)
    assert both[9] == pytest.approx(9.0 + 1000.0)


def test_cells_and_directions_do_not_meet() -> None:
    assert ends([1e6] * 4, [10**6] * 4, clients=2) == pytest.approx([2.0] * 4)
    assert ends([1e6] * 3, [10**6] * 3, clients=2) == pytest.approx([2.0, 2.0, 1.0])
    radios = [CellRadio(up=1e6, down=1e6)] * 2
    around = Network(radios, cell=CellSharing())
    around.send([Sent(0.0, 0, 10**6, up=True), Sent(0.0, 1, 10**6, up=False)])
    around.env.run()
    assert [message.t for message in around.arrived] == pytest.approx([1.0, 1.0])


def test_other_users_leave_less_time() -> None:
    assert ends([1e6, 1e6], [10**6] * 2, load="75 %") == pytest.approx([8.0, 8.0])


def test_a_radio_of_another_kind_is_in_no_cell() -> None:
    around = Network([CellRadio(up=1e6), CellRadio(up=1e6), RadioModel(up=1e6)], cell=CellSharing())
    around.send([Sent(0.0, client, 10**6, up=True) for client in range(3)])
    around.env.run()
    arrived = {message.client: message.t for message in around.arrived}
    assert arrived == pytest.approx({0: 2.0, 1: 2.0, 2: 1.0})


def test_the_servers_link_may_hold_a_cell_up() -> None:
    """Two clients of 6 Mbit/s each have 3 of the cell, and 1 of a link of 2 Mbit/s."""
    link = ServerLink(uplink=2e6)
    assert ends([6e6, 6e6], [10**6] * 2, link) == pytest.approx([1.0, 1.0])


def test_a_radio_in_no_cell_shares_the_servers_link_with_those_of_a_cell() -> None:
    """Three that could do 6 Mbit/s, and a link of 3: one each, in a cell or not."""
    radios = [CellRadio(up=6e6), CellRadio(up=6e6), RadioModel(up=6e6)]
    around = Network(radios, ServerLink(uplink=3e6), cell=CellSharing())
    around.send([Sent(0.0, client, 10**6, up=True) for client in range(3)])
    around.env.run()
    assert [message.t for message in around.arrived] == pytest.approx([1.0] * 3)


def test_sharing_costs_no_more_on_the_air() -> None:
    """A radio of state powers sends for its bits at its own rate, however long that takes."""
    around = Network([CellRadio(up=1e6, send=2.0)] * 4, cell=CellSharing())
    around.send([Sent(0.0, client, 10**6, up=True) for client in range(4)])
    around.env.run()
    assert around.traffic.joules == pytest.approx(4 * 2.0)


# -- uplink power control ------------------------------------------------------------------


def shannon(distance: float, **control: str) -> ShannonRadio:
    return ShannonRadio.model_validate(
        {
            "bandwidth": "9 MHz",
            "power": "200 mW",
            "server_power": "20 W",
            "distance": f"{distance} m",
            "send": "1.2 W",
            "control": control,
        }
    )


@every("distance", [50.0, 150.0, 400.0, 1000.0, 3000.0])
def test_power_follows_the_distance(distance: float) -> None:
    """By hand: 50 resource blocks; -95 dBm, 0.8 of 128.1 + 37.6 log10(d/km) dB; 200 mW at most."""
    loss = 128.1 + 37.6 * log10(distance / 1000)
    wanted = min(10 * log10(200), -95 + 0.8 * loss + 10 * log10(50))
    radio = shannon(distance)
    assert radio.radiated == pytest.approx(wanted)
    watts = 1e-3 * 10 ** (wanted / 10)
    assert radio.draw.send == pytest.approx(1.2 - (0.2 - watts) / 0.45)
    snr = watts * 10 ** (-loss / 10) / (1e-3 * 10**-17.4 * 9e6)
    up, down = radio.rates({})
    assert up.rate(1.0) == pytest.approx(min(log2(1 + snr), 4.4) * 9e6)  # type: ignore[attr-defined]
    assert down == shannon(distance, target="-80 dBm").rates({}).down


def test_a_message_from_far_away_costs_more() -> None:
    """Energy of a bit: longer at the edge, and at more power."""

    def joules(distance: float) -> float:
        radio = shannon(distance)
        rate: float = radio.rates({}).up.rate(1.0)  # type: ignore[attr-defined]
        return radio.draw.send / rate

    costs = [joules(distance) for distance in (100.0, 300.0, 1000.0, 3000.0)]
    assert costs == sorted(costs)
    assert costs[-1] > 10 * costs[0]


def test_without_control_nothing_changes() -> None:
    plain = ShannonRadio.model_validate(
        {"bandwidth": "9 MHz", "power": "200 mW", "server_power": "20 W", "distance": "50 m"}
    )
    assert "control" not in plain.model_dump(mode="json")
    assert plain.draw.send == 0.2
    assert plain.rates({}).up.power == 0.2  # type: ignore[attr-defined]
