"""The figures of a scenario's own regime: losses, messages at once, their size, and their queue."""

from textwrap import wrap
from typing import Any

import pandas as pd
import pytest

from fedsim.results.accuracy import (
    CLEAN,
    CLOSED_FORMS,
    ENERGY,
    FIT,
    LARGE,
    LOSSES,
    MANY,
    ONE,
    OVERFLOW,
    SMALL,
    TCP,
    TRANSFERS,
    UDP,
)
from fedsim.results.record.regimes import (
    RoundMessages,
    doubt_of_sizes,
    errors_of_energy,
    errors_of_models,
)
from tests.tiers import every

SERVER = {"uplink": "10 Mbit/s", "downlink": "10 Mbit/s", "latency": "10 ms"}
NETWORK = {"topology": "star", "server": SERVER, "model": "tcp", "peers": None}
NEW = {"connections": "new"}
COMPARED = (
    "In a comparison messages of equal size have the same error. How much time smaller messages"
    " save is uncertain."
)
REMEDY = "If a ranking may depend on it, repeat with `network.model=tcp`."


def group(kind: str = "wifi", *, loss: str = "none", **more: Any) -> dict[str, Any]:
    """Return a group of clients as a run records it."""
    radio = {"kind": kind, "up": "10 Mbit/s", "down": "10 Mbit/s", "latency": "10 ms"}
    return {"radio": {**radio, "loss": {"kind": loss}, **more}}


def said(network: Any, groups: Any, messages: RoundMessages | None = None) -> str:
    """Return the only sentence about a network."""
    (found,) = errors_of_models({**NETWORK, **network}, groups, messages)
    return found[1]


@every(
    ("network", "loss", "messages", "model", "regime"),
    [
        ({}, "none", RoundMessages(10, 1e5), "linux, kept", FIT),
        ({"tcp": NEW}, "none", RoundMessages(10, 1e5), "linux", FIT),
        ({"tcp": {"queue": 99}}, "none", RoundMessages(10, 1e5), "linux, kept", OVERFLOW),
        ({"tcp": {"queue": 99, **NEW}}, "none", RoundMessages(10, 1e5), "linux", OVERFLOW),
        (
            {"tcp": {"queue": 99, "discipline": "fq-codel"}},
            "none",
            RoundMessages(10, 1e5),
            "linux, kept",
            FIT,
        ),
        ({"tcp": {"queue": 20}}, "none", RoundMessages(10, 2000), "linux, kept", FIT),
        ({"tcp": {"queue_bdp": 3.0}}, "none", RoundMessages(10, 1e5), "linux, kept", FIT),
        ({"tcp": {"queue_bdp": 2.9}}, "none", RoundMessages(10, 1e5), "linux, kept", OVERFLOW),
        ({}, "none", RoundMessages(1, 1e5), "linux, kept", ONE),
        ({}, "independent", RoundMessages(10, 1e5), "linux", LOSSES),
        ({"tcp": {"stack": "ns-3"}}, "independent", None, "ns-3", LOSSES),
        ({"tcp": {"stack": "ns-3"}}, "none", RoundMessages(1, 1e6), "ns-3, kept", ONE),
        ({"tcp": {"stack": "ns-3", **NEW}}, "none", RoundMessages(1, 1e6), "ns-3", SMALL),
        ({"tcp": {"stack": "ns-3", **NEW}}, "none", RoundMessages(1, 1.1e6), "ns-3", LARGE),
        ({"model": "fluid"}, "none", RoundMessages(10, 1e5), "fluid", MANY),
        ({"model": "fluid"}, "none", RoundMessages(10, 1e5), "fluid, kept", MANY),
        ({"model": "fluid"}, "none", RoundMessages(1, 1e5), "fluid, kept", ONE),
        ({"model": "lv08"}, "none", None, "lv08, kept", CLEAN),
        ({"model": "lv08"}, "independent", RoundMessages(1, 1e5), "lv08", LOSSES),
        (
            {"model": "fluid", "wifi": {"transport": "tcp"}},
            "none",
            RoundMessages(5, 1e5),
            "wifi",
            TCP,
        ),
        ({"model": "fluid", "wifi": {"transport": "udp"}}, "none", None, "wifi", UDP),
    ],
)
def test_a_scenario_has_the_errors_of_its_own_regime(
    network: Any, loss: str, messages: RoundMessages | None, model: str, regime: str
) -> None:
    found = TRANSFERS[model][regime]
    text = said(network, [group(loss=loss)], messages)
    assert f"{regime}: {found} (" in text
    assert f"{found.cases} cases compared with " in text
    assert f": {found.extent})" in text
    assert (f"{COMPARED} {REMEDY}" in text) is model.startswith(("fluid", "lv08"))


KEPT_OR_NEW = "Transfer times over kept connections, ", "Transfer times over new connections, "
UNMEASURED = "Transfer times over kept connections: not measured. "


@every(
    ("network", "loss", "kept", "new"),
    [
        ({}, "none", True, False),
        ({"tcp": {"connections": "kept"}}, "none", True, False),
        ({"tcp": NEW}, "none", False, True),
        ({"model": "fluid"}, "none", True, True),
        ({"model": "lv08"}, "none", True, True),
        ({"tcp": {"stack": "ns-3"}}, "none", True, False),
        # Losses were not measured over kept connections.
        ({}, "independent", None, True),
        ({"tcp": {"stack": "ns-3", **NEW}}, "none", False, True),
        ({"model": "fluid"}, "independent", None, True),
    ],
)
def test_a_scenario_has_the_errors_of_its_connections(
    network: Any, loss: str, kept: bool | None, new: bool
) -> None:
    text = said(network, [group(loss=loss)], RoundMessages(10, 1e5))
    assert tuple(each in text for each in KEPT_OR_NEW) == (bool(kept), new)
    assert text.startswith(UNMEASURED) is (kept is None)


def test_wi_fi_keeps_connections_only_where_that_is_said() -> None:
    def over_wifi(**law: str) -> str:
        return said(
            {"model": "fluid", "wifi": {"transport": "tcp", **law}},
            [group()],
            RoundMessages(5, 1e5),
        )

    assert over_wifi().startswith(f"Transfer times, {TCP}: ")
    assert over_wifi(connections="kept").startswith(f"{UNMEASURED}{KEPT_OR_NEW[1]}{TCP}: ")


@pytest.mark.parametrize("law", [{"broadcast": "cell"}, {"lora": {}}, {"cell": {}}])
def test_a_network_that_has_no_tcp_is_not_sent_there(law: Any) -> None:
    """`model: tcp` is refused beside each of them."""
    assert REMEDY not in said({"model": "fluid", **law}, [group()], RoundMessages(10, 1e5))


@every(
    ("network", "groups", "messages", "here"),
    [
        ({}, [group()], RoundMessages(10, 1e5), ""),
        (
            {},
            [group()],
            RoundMessages(2, 1e2),
            ("Fewer of your messages overlap than tested. Your messages are smaller than tested."),
        ),
        (
            {},
            [group()],
            RoundMessages(99, 1e7),
            ("More of your messages overlap than tested. Your messages are larger than tested."),
        ),
        (
            {},
            [group(up="100 kbit/s")],
            RoundMessages(10, 1e5),
            "Your links are slower than tested.",
        ),
        ({}, [group(up="unlimited")], RoundMessages(10, 1e5), ""),  # the server's is the narrowest
        (
            {"server": {**SERVER, "uplink": "unlimited", "latency": "1 s"}},
            [group(up="unlimited")],
            RoundMessages(10, 1e5),
            ("Your links are faster than tested. Your round trips are longer than tested."),
        ),
        ({}, [group(up=None)], RoundMessages(10, 1e5), ""),  # a trace
        (
            {"model": "fluid", "wifi": {"transport": "tcp"}},
            [group(loss="independent")],
            RoundMessages(5, 1e5),
            "Your losses are random; those tested were not.",
        ),
    ],
)
def test_what_of_a_scenario_is_beyond_the_cases_is_named(
    network: Any, groups: Any, messages: RoundMessages, here: str
) -> None:
    assert said({"tcp": NEW, **network}, groups, messages).partition("). ")[2] == here


@every(
    ("network", "radio", "name"),
    [
        ({"model": "fluid"}, "nb-iot", "nb-iot"),
        ({"model": "fluid"}, "lora-sf9", "lora"),
        ({"model": "fluid"}, "zigbee", "short-range"),
        ({"model": "fluid", "cell": {}}, "lte-2020", "cell"),
    ],
)
def test_what_has_only_a_closed_form_is_not_held_against_tcp(
    network: Any, radio: str, name: str
) -> None:
    text = said(network, [group(radio)], RoundMessages(10, 1e5))
    assert text == CLOSED_FORMS[name]
    assert "rrors are unknown" in text


def test_a_fleet_of_several_radios_has_a_sentence_for_each_model() -> None:
    network = {**NETWORK, "model": "fluid", "wifi": {"transport": "tcp"}}
    groups = [group("wifi-6"), group("lte"), group("wifi")]
    found = dict(errors_of_models(network, groups, RoundMessages(20, 1e5)))
    assert list(found) == ["wifi", "fluid"]
    assert not list(errors_of_models(network, [], None))  # ideal clients
    peers = {**NETWORK, "peers": {"kind": "ring"}}
    assert dict(errors_of_models(peers, groups)) == {"tcp": CLOSED_FORMS["peers"]}


def test_frames_of_lora_are_held_against_aloha_and_lorasim() -> None:
    text = said({"model": "fluid", "lora": {"channels": 3}}, [group("lora-sf9")])
    assert "worst error 2.6 % in 8 cases compared with pure ALOHA" in text
    assert text.endswith("No real gateway was measured.")


def test_messages_are_those_of_a_round_of_the_table() -> None:
    costs = {"cohort": 10.0, "transmissions": 5.0, "bits_up": 4000.0, "bits_down": 4000.0}
    assert RoundMessages.of_round(costs) == RoundMessages(10, 100.0)
    assert RoundMessages.of_round({**costs, "transmissions": 0.0}) == RoundMessages(10, 50.0)
    assert RoundMessages.of_round({**costs, "cohort": 0.0}) is None


@pytest.mark.parametrize("model", ["fluid", "lv08", "tcp"])
@pytest.mark.parametrize("size", [1e2, 1e5, 1e8])
def test_a_check_has_two_lines_with_the_median_error_and_what_to_do(
    model: str, size: float
) -> None:
    network = {**NETWORK, "model": model}
    ((_, text),) = errors_of_models(network, [group()], RoundMessages(10, size), brief=True)
    assert len(wrap(f"{model}. {text}", 85)) <= 2  # beside a key, in 100 columns
    assert "Median error of times " in text
    assert ("Your messages are smaller than tested." in text) is (size == 1e2)
    advised = "If message sizes differ, repeat with network.model=tcp." in text
    assert advised is (model != "tcp")


def test_errors_of_energy_are_those_of_the_presets_groups() -> None:
    def clients(device: str, radio: str, *intervals: str) -> dict[str, Any]:
        blocks = {"device": {"kind": device}, "radio": {"kind": radio}}
        return {**blocks, "intervals": dict.fromkeys(intervals)}

    fleet = [clients("pi-4", "5g-low"), clients("pi-5", "lte"), clients("ideal", "ideal")]
    found = dict(errors_of_energy([*fleet, clients("phone-mid", "wifi", "device.speed")]))
    assert found == {
        "pi-4, pi-5": f"boards: {ENERGY['boards']}.",
        "5g-low": f"cellular: {ENERGY['cellular']}.",
        "lte, wifi": "not compared with measurements.",
    }
    assert dict(errors_of_energy(fleet[:1], brief=True)) == {
        "pi-4": "median error of boards a factor of 1.2.",
        "5g-low": "median error of cellular a factor of 1.4.",
    }
    assert not list(errors_of_energy(fleet[2:]))


def rounds(*replies: float, silent: int = 0) -> pd.DataFrame:
    """Return a round table of variants whose ten clients receive 1 Mbit and reply some bits."""
    rows = [
        {
            "variant": f"v{number}",
            "cohort": 10,
            "transmissions": 10 - silent * number,
            "bits_down": 1e7,
            "bits_up": bits * (10 - silent * number),
        }
        for number, bits in enumerate(replies)
    ]
    return pd.DataFrame(rows)


FLUID = {**NETWORK, "model": "fluid"}


def test_times_of_messages_of_several_sizes_are_in_doubt_without_tcp() -> None:
    text = doubt_of_sizes(FLUID, [group()], rounds(1e6, 1e5))
    kept = TRANSFERS["fluid, kept"][MANY].median
    assert f"network.model fluid has a median error of {kept:.0f} % over kept" in text
    assert text.endswith(": repeat with network.model=tcp before you rely on their times")
    cell = {**FLUID, "broadcast": "cell"}
    assert doubt_of_sizes(cell, [group()], rounds(1e6, 1e5)).endswith("not rely on their times")


@pytest.mark.parametrize(
    ("network", "groups", "table"),
    [
        (FLUID, [group()], rounds(1e6, 1e6)),
        (FLUID, [group()], rounds(1e6, 1e6, silent=3)),  # fewer messages, of one size
        (FLUID, [group()], rounds(1e6)),
        (NETWORK, [group()], rounds(1e6, 1e5)),
        (FLUID, [], rounds(1e6, 1e5)),
        (FLUID, [group("lora")], rounds(1e6, 1e5)),
        ({**FLUID, "peers": {}}, [group()], rounds(1e6, 1e5)),
    ],
)
def test_there_is_no_doubt_where_sizes_are_equal_or_the_model_has_windows(
    network: Any, groups: Any, table: pd.DataFrame
) -> None:
    assert doubt_of_sizes(network, groups, table) == ""
