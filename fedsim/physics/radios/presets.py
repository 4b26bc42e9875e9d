"""The table of radios: rates, latencies and powers, with their intervals and sources.

Latency is half of the round-trip time. A power per rate is an energy per bit: 1 mW/(Mbit/s) is 1
nJ/bit. Framing is the header bytes of every packet.
"""

from collections.abc import Mapping

from fedsim.core.blocks.presets import Citation, Preset
from fedsim.physics.sources import (
    ANDROID,
    BLUEJOULE,
    BOAKS_2022,
    CASALS_2017,
    CC2420,
    DA_SILVA_2017,
    GUNARATNE_2008,
    HEADERS,
    HUANG_2012,
    IMEC_NB_IOT,
    LATRE_2006,
    LORAWAN,
    NARAYANAN_2021,
    NORDIC,
    NRF9160,
    ROBINSON_2019,
    SARA_N2,
    SIM7000,
    SINGH_2020,
    TR_38_840,
    WIFI_6,
    YE_NB_IOT,
    Figure,
    est,
    lit,
    meas,
    preset,
)

_HUANG = "[lit] Huang et al., A Close Examination of 4G LTE Networks, MobiSys 2012"
_HUANG_3G = f"{_HUANG}: its 3G"
_NARAYANAN = (
    "[meas] slopes: Narayanan et al., A Variegated Look at 5G in the Wild, SIGCOMM 2021;"
    " the tail, of 10 s, at the base power, which is from Android's power profiles"
)
_CHIP = "[lit] state powers of a radio chip's data sheet"
_CHIP_2M = "[lit] state powers of a radio chip's data sheet; the 2M PHY of Bluetooth 5"
_NARROW = "[lit] state powers of a module's data sheet; packets of 1500 bytes as in LTE"
_ANDROID = "[lit] currents of the Wi-Fi controller of a phone of 2021; [est] rates"


_FRAMING: Mapping[int, tuple[float, float, Citation]] = {
    17: (14, 24, NORDIC),  # without and with fragments and the integrity check of a secured link
    27: (21, 48, LATRE_2006),  # of short addresses, and of long ones with security
    40: (28, 60, HEADERS),  # headers compressed, and with all options of the day
    60: (44, 80, HEADERS),  # likewise, with 20 of the cellular layers below
    66: (54, 90, HEADERS),  # without options, and with check sum, preamble and gap
}
"""Bytes of framing -> their interval and its source."""


def _radio(basis: str, framing: str, **figures: Figure | str) -> Preset:
    """Return a radio by "bytes of framing per bytes of packet" and its other figures."""
    overhead, _, packet = framing.partition(" per ")
    low, high, source = _FRAMING[int(overhead)]
    figures |= {"framing": lit(f"{overhead} B", low, high, source), "packet": f"{packet} B"}
    none = dict.fromkeys(("up", "down", "latency"), "")  # figures of every radio; puts them first
    none |= {"energy_up": "0 J/bit", "energy_down": "0 J/bit", "base": "0 W"}
    return preset(basis, **{**none, **figures})


RADIOS: Mapping[str, Preset] = {
    "ideal": preset(
        "sends in no time, for nothing",
        up="unlimited",
        down="unlimited",
        latency="0 s",
        energy_up="0 J/bit",
        energy_down="0 J/bit",
        base="0 W",
    ),
    "ble": _radio(
        _CHIP,
        "17 per 244",
        up=lit("0.7 Mbit/s", 0.2, 1.3, NORDIC),
        down=lit("0.7 Mbit/s", 0.2, 1.3, NORDIC),
        latency=lit("15 ms", 4, 50, NORDIC),
        send=lit("14.4 mW", 12, 45, NORDIC),
        receive=lit("13.8 mW", 12, 33, NORDIC),
        listen=lit("13.8 mW", 12, 33, NORDIC),
        sleep=lit("9.5 uW", 1.5, 12, BLUEJOULE),
        listening=est("4 %", 1, 16, NORDIC),
    ),
    # The 2M PHY carries 244 bytes in 1.392 ms (1.048 ms, the empty answer's 44 us and two gaps of
    # 150 us), so at most 1.4 Mbit/s. Currents are those of the 1M PHY, for the whole chip at 3 V,
    # from the data sheet's table: 6.40 mA to send at 0 dBm and 6.26 mA to receive.
    "ble-5": _radio(
        _CHIP_2M,
        "17 per 244",
        up=lit("1.2 Mbit/s", 0.3, 1.4, NORDIC),
        down=lit("1.2 Mbit/s", 0.3, 1.4, NORDIC),
        latency=lit("15 ms", 4, 50, NORDIC),
        send=lit("19.2 mW", 12, 50, NORDIC),
        receive=lit("18.8 mW", 12, 33, NORDIC),
        listen=lit("18.8 mW", 12, 33, NORDIC),
        sleep=lit("9.5 uW", 1.5, 12, BLUEJOULE),
        listening=est("4 %", 1, 16, NORDIC),
    ),
    "zigbee": _radio(
        _CHIP,
        "27 per 127",
        up=lit("0.1 Mbit/s", 0.03, 0.16, LATRE_2006),
        down=lit("0.1 Mbit/s", 0.03, 0.16, LATRE_2006),
        latency=lit("10 ms", 3, 30, LATRE_2006),
        send=lit("52 mW", 18, 75, CC2420),
        receive=lit("56 mW", 18, 72, CC2420),
        listen=lit("56 mW", 18, 72, CC2420),
    ),
    "nb-iot": _radio(
        _NARROW,
        "40 per 1500",
        up=lit("0.03 Mbit/s", 0.005, 0.06, SARA_N2),
        down=lit("0.025 Mbit/s", 0.005, 0.03, SARA_N2),
        latency=est("750 ms", 200, 5000, SINGH_2020),
        send=lit("792 mW", 260, 1000, SARA_N2),
        receive=lit("166 mW", 90, 250, SARA_N2),
        idle=lit("22 mW", 3, 30, SARA_N2),
    ),
    "umts": _radio(
        _HUANG_3G,
        "40 per 1500",
        up=lit("0.94 Mbit/s", 0.3, 2, HUANG_2012),
        down=lit("2 Mbit/s", 0.7, 5, HUANG_2012),
        latency=lit("60 ms", 30, 120, HUANG_2012),
        energy_up=meas("868.98 mW/(Mbit/s)", 600, 1250, HUANG_2012),
        energy_down=meas("122.12 mW/(Mbit/s)", 85, 175, HUANG_2012),
        base=meas("817.88 mW", 600, 1100, HUANG_2012),
        tail_power=meas("804 mW", 450, 1000, HUANG_2012),
        tail_time=meas("8.1 s", 4, 15, HUANG_2012),
        promotion_power=meas("659 mW", 500, 900, HUANG_2012),
        promotion_time=meas("0.58 s", 0.4, 2, HUANG_2012),
    ),
    "lte": _radio(
        _HUANG,
        "60 per 1500",
        up=meas("6 Mbit/s", 2, 12, HUANG_2012),
        down=meas("13 Mbit/s", 5, 25, HUANG_2012),
        latency=meas("30 ms", 20, 50, HUANG_2012),
        energy_up=meas("438.39 mW/(Mbit/s)", 300, 640, HUANG_2012),
        energy_down=meas("51.97 mW/(Mbit/s)", 36, 75, HUANG_2012),
        base=meas("1288.04 mW", 900, 1700, HUANG_2012),
        tail_power=meas("1060 mW", 700, 1400, HUANG_2012),
        tail_time=meas("11.6 s", 5, 13, HUANG_2012),
        promotion_power=meas("1211 mW", 900, 1600, HUANG_2012),
        promotion_time=meas("0.26 s", 0.2, 0.5, HUANG_2012),
    ),
    "lte-2020": _radio(
        _NARAYANAN,
        "60 per 1500",
        up=meas("20 Mbit/s", 7, 35, NARAYANAN_2021),
        down=meas("40 Mbit/s", 15, 90, NARAYANAN_2021),
        latency=meas("25 ms", 15, 35, NARAYANAN_2021),
        energy_up=meas("76.7 mW/(Mbit/s)", 50, 115, NARAYANAN_2021),
        energy_down=meas("11.5 mW/(Mbit/s)", 8, 20, NARAYANAN_2021),
        base=lit("1000 mW", 500, 1700, ANDROID),
        tail_power=lit("1000 mW", 150, 1300, ANDROID),
        tail_time=meas("10 s", 5, 12, NARAYANAN_2021),
    ),
    "5g-low": _radio(
        _NARAYANAN,
        "60 per 1500",
        up=meas("40 Mbit/s", 10, 60, NARAYANAN_2021),
        down=meas("100 Mbit/s", 30, 250, NARAYANAN_2021),
        latency=meas("20 ms", 12, 30, NARAYANAN_2021),
        energy_up=meas("32.2 mW/(Mbit/s)", 8, 60, NARAYANAN_2021),
        energy_down=meas("11.5 mW/(Mbit/s)", 4, 22, NARAYANAN_2021),
        base=lit("1200 mW", 400, 2600, NARAYANAN_2021),
        tail_power=lit("1200 mW", 200, 1600, ANDROID),
        tail_time=meas("10 s", 9, 13, NARAYANAN_2021),
    ),
    "5g-mmwave": _radio(
        _NARAYANAN,
        "60 per 1500",
        up=meas("130 Mbit/s", 30, 200, NARAYANAN_2021),
        down=meas("800 Mbit/s", 200, 2000, NARAYANAN_2021),
        latency=meas("10 ms", 5, 27, NARAYANAN_2021),
        energy_up=meas("8.9 mW/(Mbit/s)", 6, 13, NARAYANAN_2021),
        energy_down=meas("1.73 mW/(Mbit/s)", 1.2, 2.6, NARAYANAN_2021),
        base=est("3000 mW", 1800, 5500, NARAYANAN_2021),
        tail_power=est("3000 mW", 800, 4000, NARAYANAN_2021),
        tail_time=meas("10 s", 9, 13, NARAYANAN_2021),
    ),
    "wifi": _radio(
        _HUANG,
        "66 per 1514",
        up=lit("20 Mbit/s", 3, 50, HUANG_2012),
        down=lit("30 Mbit/s", 5, 80, HUANG_2012),
        latency=lit("5 ms", 1, 30, HUANG_2012),
        energy_up=meas("283.17 mW/(Mbit/s)", 100, 400, HUANG_2012),
        energy_down=meas("137.01 mW/(Mbit/s)", 50, 200, HUANG_2012),
        base=meas("132.86 mW", 90, 300, HUANG_2012),
        tail_power=meas("119 mW", 80, 250, HUANG_2012),
        tail_time=meas("0.24 s", 0.15, 0.4, HUANG_2012),
        promotion_power=meas("124 mW", 80, 250, HUANG_2012),
        promotion_time=meas("0.08 s", 0.05, 0.12, HUANG_2012),
    ),
    "wifi-6": _radio(
        _ANDROID,
        "66 per 1514",
        up=est("200 Mbit/s", 50, 600, WIFI_6),
        down=est("300 Mbit/s", 80, 800, WIFI_6),
        latency=est("3 ms", 1, 15, WIFI_6),
        send=lit("1740 mW", 800, 2200, ANDROID),
        receive=lit("363 mW", 200, 900, ANDROID),
        tail_power=lit("141 mW", 30, 250, ANDROID),
        tail_time=meas("0.24 s", 0.1, 0.4, HUANG_2012),
    ),
    "ethernet": _radio(
        "[est] gigabit; the power does not depend on the rate",
        "66 per 1514",
        # The interval covers ports of 100 Mbit/s or slow hosts, and twice the line rate of bonded
        # ports.
        up=est("940 Mbit/s", 300, 1900, GUNARATNE_2008),
        down=est("940 Mbit/s", 300, 1900, GUNARATNE_2008),
        latency=est("0.5 ms", 0.1, 2, GUNARATNE_2008),
        base=lit("0.5 W", 0.2, 1.2, GUNARATNE_2008),
    ),
}
"""The presets of constant rate. [lit] is the cited paper or data sheet, [meas] a measurement, [est]
accurate to a factor of about 2.

The power between messages (`listen`, `sleep`, `listening`) follows from how soon the radio can be
reached. Zigbee's is always on when idle, since its latency leaves no time for polling. BLE wakes
for every connection event, here 0.4 ms in 30 ms, twice its latency. For the other radios this power
is part of another figure. After its tail, a phone's LTE, 5G or Wi-Fi radio is paged, or listens for
beacons; this is part of the idle power of the phone, which was measured with its radios on.
`nb-iot` has it in its `idle`. An Ethernet link sleeps between packets (IEEE 802.3az), and its
remaining power is part of the idle power of a computer, which was measured over its network. If a
device's idle power does not include a radio, state these powers.

The whole-phone intercepts of Narayanan et al., 2.84 W in LTE and 3.06 W and 5.24 W in 5G, include a
screen at its brightest. They bound the base power from above, and their differences are those of
the base powers here.
"""


def _lora(spreading: int) -> Preset:
    return preset(
        "[lit] state powers of a modem's data sheet; EU868 payloads and 1 % duty cycle",
        spreading=spreading,
        send=lit("92 mW", 66, 280, CASALS_2017),
        receive=lit("37 mW", 26, 130, CASALS_2017),
        listen=lit("37 mW", 26, 130, CASALS_2017),
        sleep=lit("5 uW", 0.5, 150, CASALS_2017),
        listening=est("3 %", 0.5, 10, LORAWAN),
    )


LORA: Mapping[str, Preset] = {f"lora-sf{factor}": _lora(factor) for factor in range(7, 13)}
"""The presets of LoRa, by spreading factor."""


# NB-IoT modules with their states, and intervals and sources of the figures.
# Powers are a module's currents at 3.6 V: 220 mA, 46 mA, 6 mA and 3 uA. Rates are those of the
# preset `nb-iot`. Timers are set by the network; their intervals are those of real networks.

_BASIS = "[lit] state powers of a simulator's module; [meas] delays and C-DRX; [est] paging"

_GOOD = "as in good coverage: elsewhere messages are repeated, and take longer"
_MOST = "of the module whose other powers stand here; later modules draw less"
_ASLEEP = "the supply current of sleep, below which no module is; others only doze"

_MODULE: Mapping[str, Figure | str] = {
    "up": lit("30 kbit/s", 5, 60, SARA_N2),
    "down": lit("25 kbit/s", 5, 30, SARA_N2),
    # A ping takes 185 to 207 ms in good coverage, and 793 ms in bad coverage.
    "latency": meas("95 ms", 92, 400, ROBINSON_2019, _GOOD),
    "framing": lit("40 B", 28, 60, HEADERS),
    "packet": "1500 B",
    "idle": lit("10.8 uW", 9.9, 15, YE_NB_IOT),
    "send": lit("792 mW", 500, 1000, IMEC_NB_IOT),
    # Two modules draw 66 to 74 mA while they listen.
    "receive": lit("165.6 mW", 150, 265, IMEC_NB_IOT),
    "doze": lit("21.6 mW", 3, 22, IMEC_NB_IOT, _MOST),
    "listen": lit("200 ms", 50, 1000, YE_NB_IOT),
    "connected": lit("10 s", 5, 20, ROBINSON_2019),
    "drx_cycle": lit("2.048 s", 0.256, 9.216, ROBINSON_2019),
    "drx_on": lit("5 ms", 4, 80, YE_NB_IOT, _GOOD),
    # The first ping of ten takes 500 to 600 ms, the others 186 ms. A datagram after a pause takes
    # 0.5 to 9 s in good coverage, by the vendor of the network.
    "resume_time": meas("350 ms", 100, 5000, ROBINSON_2019),
    # Resuming both receives and sends.
    "resume_power": lit("250 mW", 166, 792, IMEC_NB_IOT),
}

_OFTEN: Mapping[str, Figure | str] = {
    "paging_cycle": "2.56 s",
    "paging_on": est("5 ms", 4, 500, ROBINSON_2019, _GOOD),
    "between": lit("21.6 mW", 3, 22, IMEC_NB_IOT, _MOST),
}
_SELDOM: Mapping[str, Figure | str] = {
    "paging_cycle": "20.48 s",
    "paging_on": est("50 ms", 5, 500, ROBINSON_2019),
    "between": lit("0.0108 mW", 0.0099, 3, YE_NB_IOT, _ASLEEP),
}
_PSM: Mapping[str, Figure | str] = {
    "paged": "20 s",
    "tau": "2 h",
    "sync_time": est("1 s", 0.2, 5, ROBINSON_2019),
}

NB_IOT: Mapping[str, Preset] = {
    "nb-iot-drx": preset(_BASIS, **_MODULE, **_OFTEN),
    "nb-iot-edrx": preset(_BASIS, **_MODULE, **_SELDOM),
    "nb-iot-psm": preset(_BASIS, **_MODULE, **_OFTEN, **_PSM),
}
"""The presets of NB-IoT: often paged, seldom paged, and asleep."""


# LTE, LTE-M and 5G with the stages of their connection.
# Rates, slopes, latencies and base powers are those of the preset without stages. Huang et al.
# state the powers of the on-periods, of the tail between them and of paging. For later networks the
# RRC-Probe data of Narayanan et al. give the timers and cycles. Powers of listening and dozing are
# the relative ones of 3GPP TR 38.840, scaled so that listening (100; 175 above 24 GHz) draws the
# base power. Dozing is light sleep (20), between deep sleep (1) and micro sleep (45; 38 above 24
# GHz). The interval of mmWave includes the power of the LTE connection beside it.

_STAGED = "[meas] as {}, with the timers of {}; [lit] relative powers of 3GPP TR 38.840"
_MACHINES = "[lit] currents of a modem's product specification; [meas] its connection"
_HUANG_STAGED = f"{_HUANG}: with short and long DRX, and paging"

_PAGED: Mapping[str, Figure | str] = {
    "paging": meas("594 mW", 300, 1000, HUANG_2012),
    "paging_cycle": meas("1.28 s", 0.32, 2.56, NARAYANAN_2021),
    "paging_on": meas("43 ms", 10, 60, HUANG_2012),
}


def _with_stages(name: str, basis: str, **figures: Figure | str) -> Preset:
    """Return a preset of `RADIOS` with stages in place of its tail."""
    plain = RADIOS[name]
    kept = {
        key: Figure(value, plain.doubts[key]) if key in plain.doubts else value
        for key, value in plain.values.items()
        if not key.startswith("tail")
    }
    return preset(basis, **{**kept, **_PAGED, **figures})


_LOW_BAND: Mapping[str, Figure] = {
    "monitor": lit("1200 mW", 600, 2000, ANDROID),
    "doze": lit("240 mW", 12, 540, TR_38_840),
    "inactivity": meas("0.3 s", 0.08, 0.4, NARAYANAN_2021),
    "long_cycle": meas("320 ms", 80, 640, NARAYANAN_2021),
    "drx_on": lit("10 ms", 4, 20, TR_38_840),
    "connected": meas("10.2 s", 9, 13, NARAYANAN_2021),
}
"""The stages of 5G's low band beside LTE; standalone 5G has another cycle."""

CELLULAR: Mapping[str, Preset] = {
    "lte-drx": _with_stages(
        "lte",
        _HUANG_STAGED,
        monitor=meas("1680 mW", 1200, 2200, HUANG_2012),
        doze=meas("1060 mW", 700, 1400, HUANG_2012),
        inactivity=lit("100 ms", 10, 300, TR_38_840),
        short_cycle=meas("20 ms", 10, 80, HUANG_2012),
        short_time=est("20 ms", 10, 640, HUANG_2012),
        long_cycle=meas("40 ms", 20, 320, HUANG_2012),
        drx_on=meas("1 ms", 0.5, 10, HUANG_2012),
        connected=meas("11.6 s", 5, 13, HUANG_2012),
    ),
    "lte-2020-drx": _with_stages(
        "lte-2020",
        _STAGED.format("lte-2020", "Verizon's LTE"),
        monitor=lit("1000 mW", 500, 1700, ANDROID),
        doze=lit("200 mW", 10, 450, TR_38_840),
        inactivity=meas("0.3 s", 0.08, 0.4, NARAYANAN_2021),
        long_cycle=meas("320 ms", 80, 640, NARAYANAN_2021),
        drx_on=lit("10 ms", 4, 20, TR_38_840),
        connected=meas("10 s", 5, 12, NARAYANAN_2021),
        promotion_time=meas("0.3 s", 0.2, 0.5, NARAYANAN_2021),
        promotion_power=est("1000 mW", 500, 1700, ANDROID),
    ),
    "5g-low-drx": _with_stages(
        "5g-low",
        _STAGED.format("5g-low", "5G beside LTE of Verizon and T-Mobile"),
        **_LOW_BAND,
        promotion_time=meas("0.3 s", 0.2, 0.5, NARAYANAN_2021),
        promotion_power=est("1200 mW", 600, 2000, ANDROID),
    ),
    "5g-mmwave-drx": _with_stages(
        "5g-mmwave",
        _STAGED.format("5g-mmwave", "Verizon's mmWave"),
        monitor=est("3000 mW", 1800, 4200, NARAYANAN_2021),
        doze=lit("340 mW", 17, 850, TR_38_840),
        inactivity=est("0.3 s", 0.08, 0.4, NARAYANAN_2021),
        long_cycle=meas("80 ms", 40, 160, NARAYANAN_2021),
        drx_on=lit("5 ms", 2, 10, TR_38_840),
        connected=meas("10.2 s", 9, 13, NARAYANAN_2021),
        promotion_time=meas("0.3 s", 0.2, 0.5, NARAYANAN_2021),
        promotion_power=est("1200 mW", 600, 3000, ANDROID),
    ),
    # Speeds are medians of 1,216 Speedtests on T-Mobile's network; slopes are those of low band
    # beside LTE. RRC-Probe's authors mark RRC inactive from 10.2 s to 15 s; until then round trips
    # vary by 60 ms, the cycle. They show no faster resume: connecting takes 0.35 s from either
    # state.
    "5g-sa": _with_stages(
        "5g-low",
        _STAGED.format("5g-low", "T-Mobile's standalone 5G, and its speeds"),
        up=meas("39 Mbit/s", 20, 60, NARAYANAN_2021),
        down=meas("42 Mbit/s", 20, 90, NARAYANAN_2021),
        latency=meas("20 ms", 15, 33, NARAYANAN_2021),
        **{**_LOW_BAND, "long_cycle": meas("60 ms", 20, 160, NARAYANAN_2021)},
        inactive=meas("4.8 s", 2, 20, NARAYANAN_2021),
        inactive_cycle=meas("1.28 s", 0.32, 2.56, NARAYANAN_2021),
        resume_time=est("0.1 s", 0.01, 0.35, DA_SILVA_2017),
        resume_power=lit("1200 mW", 600, 2000, ANDROID),
        promotion_time=meas("0.35 s", 0.2, 0.5, NARAYANAN_2021),
        promotion_power=lit("1200 mW", 600, 2000, ANDROID),
    ),
    # A modem for sensors that sends or receives. Uplink: 45 mA at 0 dBm and 100 mA at 23 dBm, at
    # 180 kbit/s and 3.7 V; `base` is the part of listening. A window of eDRX costs 4.6 mJ (18 uA on
    # average every 81.92 s, of which 2.7 uA are sleep). The connection's 10 s cost 0.19 J, from
    # which the power between on-periods follows.
    "lte-m": _radio(
        _MACHINES,
        "60 per 1500",
        up=lit("180 kbit/s", 60, 375, NRF9160),
        down=lit("180 kbit/s", 60, 375, NRF9160),
        latency=est("50 ms", 20, 150, BOAKS_2022),
        idle=lit("10 uW", 7, 33, NRF9160),
        energy_up=lit("1100 mW/(Mbit/s)", 370, 1800, NRF9160),
        base=lit("100 mW", 41, 166, SIM7000),
        monitor=lit("100 mW", 41, 166, SIM7000),
        doze=meas("12 mW", 4, 20, BOAKS_2022),
        inactivity=est("0.2 s", 0.05, 0.5, BOAKS_2022),
        long_cycle=est("320 ms", 80, 1280, BOAKS_2022),
        drx_on=est("10 ms", 4, 20, BOAKS_2022),
        connected=meas("10 s", 5, 20, BOAKS_2022),
        paging=lit("100 mW", 41, 166, SIM7000),
        paging_cycle="1.28 s",
        paging_on=lit("46 ms", 20, 90, NRF9160),
        promotion_time=lit("0.5 s", 0.2, 1.5, BOAKS_2022),
        promotion_power=lit("130 mW", 70, 300, NRF9160),
    ),
}
"""The presets of LTE and 5G with stages. Non-standalone 5G, anchored in LTE, has no RRC inactive.

Paging is also part of the idle power of a phone, which is an estimate. So these 20 mW are charged
twice there, which is 6 % of the idle power of `phone-mid`; `paging_on: 0 s` avoids this.
"""
