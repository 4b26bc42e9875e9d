"""Automatic repeat in the long run: what the log shows against the closed forms."""

import numpy as np
import pytest
from scipy import stats

from fedsim.physics.packet_loss import PacketLoss
from fedsim.physics.radios.channel import Framing
from fedsim.protocol.stopping import Stop
from fedsim.sim.server import SimServer
from tests.physics.losses import GilbertElliott, Independent
from tests.policies import participation_of
from tests.sim.radios import RadioModel
from tests.tiers import every

from .physical import member
from .worlds import Run, answered, asked, fleet, play, rounds, setup

PACKET = Framing(0, 12)  # 96 bits a packet
CLIENTS = 40


def messages(loss: PacketLoss, tries: int | None, bits: int, many: int) -> Run:
    """Let every client send so many messages of so many bits over a lossy uplink."""

    async def handle(client: object, message: object) -> object:
        return answered(bits)

    radio = RadioModel(up=1e6, framing=PACKET, loss=loss, tries=tries)
    policy = participation_of(deadline=1e6)
    # What is asked has no bits, so that nothing of it is lost.
    serve = asking_for_nothing
    stop = Stop(rounds=many)
    members = [member(radio=radio)] * CLIENTS
    return play(setup(serve, handle, members, participation=policy, stop=stop))


async def asking_for_nothing(server: SimServer) -> None:
    while True:
        await server.exchange(asked(0))
        server.commit(server.initial)


def per_client(run: Run, event: str, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the sums of a column over an event's rows, by client."""
    sums = np.zeros(CLIENTS)
    for row in run.of(event):
        if row["node"] != "server":
            sums[int(row["node"][7:])] += row[column]
    return sums


@every("loss", [0.1, 0.5])
@every("tries", [1, 2, 4, None])
def test_independent_losses_cost_what_the_closed_forms_say(loss: float, tries: int | None) -> None:
    packets = 30_000
    run = messages(Independent(loss), tries, 96 * packets, 1)
    again = per_client(run, "retransmit", "transport_bits") / (96 * packets)
    expected = 1 / (1 - loss) if tries is None else (1 - loss**tries) / (1 - loss)
    if tries == 1:
        assert not again.any()
    else:
        assert stats.ttest_1samp(1 + again, expected).pvalue > 1e-3
    if tries is None:
        assert run.of("lost") == []


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "tries"), [(0.5, 1), (0.5, 3), (0.2, 2)])
def test_a_packet_is_lost_for_good_as_often_as_all_its_tries_are(loss: float, tries: int) -> None:
    run = messages(Independent(loss), tries, 96, 60)
    sent = CLIENTS * 60
    assert len(run.of("send")) == 2 * sent
    assert stats.binomtest(len(run.of("lost")), sent, loss**tries).pvalue > 1e-3
    assert len(run.of("receive", node="server")) == sent - len(run.of("lost"))


def test_bursts_cost_what_the_stationary_share_of_losses_says() -> None:
    # Every transmission is a step of the chain, so that of n of them n (1 - loss) pass.
    law = GilbertElliott(p=0.05, r=0.2, h=0.0, k=0.99)
    packets = 30_000
    run = messages(law, None, 96 * packets, 1)
    again = per_client(run, "retransmit", "transport_bits") / (96 * packets)
    lost = 0.2 * 1.0 + 0.8 * 0.01
    assert stats.ttest_1samp(1 + again, 1 / (1 - lost)).pvalue > 1e-3


def test_bursts_make_repeated_losses_likelier_than_independent_ones() -> None:
    law = GilbertElliott(p=0.02, r=0.1)
    run = messages(law, 3, 96, 60)
    assert len(run.of("lost")) > 2 * CLIENTS * 60 * law.mean**3


def test_every_client_and_each_direction_has_losses_of_its_own() -> None:
    radio = RadioModel(1e6, 1e6, framing=PACKET, loss=Independent(0.5))
    stop = Stop(rounds=1)

    async def handle(client: object, message: object) -> object:
        return answered(96 * 1000)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(96 * 1000))
        server.commit(server.initial)

    run = play(setup(serve, handle, [member(radio=radio)] * 10, stop=stop))
    assert len({row["transport_bits"] for row in run.of("retransmit")}) > 15


def test_losses_do_not_depend_on_how_many_clients_there_are() -> None:
    radio = RadioModel(1e6, 1e6, framing=PACKET, loss=Independent(0.5))

    def lost(clients: int) -> list[tuple[float, int]]:
        members = fleet(*[(member().device, radio)] * clients)
        run = play(setup(rounds, members=members, stop=Stop(rounds=20)))
        rows = run.of("retransmit", node="client-0")
        return [(row["round"], row["transport_bits"]) for row in rows]

    assert lost(1) == lost(5) != []
