"""The table of NB-IoT modules with their states, with intervals and where they are from.

Powers are a module's currents at 3.6 V: 220 mA, 46 mA, 6 mA and 3 uA. Rates are those of the preset
`nb-iot`. Timers are the network's; their intervals are what networks use.
"""

from collections.abc import Mapping

from fedsim.blocks.presets import Preset
from fedsim.physics.figures import Figure, est, lit, meas, preset
from fedsim.physics.sources import HEADERS, IMEC_NB_IOT, ROBINSON_2019, SARA_N2, YE_NB_IOT

_BASIS = "[lit] state powers of a simulator's module; [meas] delays and C-DRX; [est] paging"

_GOOD = "as in good coverage: elsewhere messages are repeated, and take longer"
_MOST = "of the module whose other powers stand here; later modules draw less"
_ASLEEP = "the supply current of sleep, below which no module is; others only doze"

_MODULE: Mapping[str, Figure | str] = {
    "up": lit("30 kbit/s", 5, 60, SARA_N2),
    "down": lit("25 kbit/s", 5, 30, SARA_N2),
    # A ping takes 185 to 207 ms in good coverage, and 793 ms in bad one.
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
    # The first ping of ten takes 500 to 600 ms, the others 186 ms.
    "resume_time": meas("350 ms", 300, 1000, ROBINSON_2019),
    # It receives and it sends.
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
"""The presets of NB-IoT: always paged, seldom paged, and asleep."""
