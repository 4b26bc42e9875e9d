"""Figures of presets: a value, its 90 % interval, and its source (paper, data sheet, measurement).

In `meas("6 Mbit/s", 3, 12, HUANG_2012)`, the ends of the interval have the unit of the value. A
figure that is only a text is exact by definition, for example by a standard, or a choice.
"""

from typing import NamedTuple

from fedsim.core.blocks.presets import Basis, Citation, Doubt, Preset


class Figure(NamedTuple):
    """A figure of a preset.

    Attributes:
        value: the value in the notation of a scenario.
        doubt: its uncertainty.
    """

    value: str | float
    doubt: Doubt


def meas(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return a measured figure; see `fedsim.core.blocks.presets.Doubt`."""
    return _figure(value, low, high, "meas", source, aside)


def lit(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return a figure from the literature, which states the figure, its range, or a bound."""
    return _figure(value, low, high, "lit", source, aside)


def est(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return an estimated figure; its source is the nearest published one."""
    return _figure(value, low, high, "est", source, aside)


def preset(basis: str, **figures: Figure | str | float) -> Preset:
    """Return a preset with these figures; those without a doubt are definitions or choices.

    Example:
        >>> from fedsim.physics.sources import HUANG_2012
        >>> made = preset("[lit] a paper", base=meas("1288 mW", 900, 1800, HUANG_2012))
        >>> made.values["base"], str(made.doubts["base"])
        ('1288 mW', '900 mW to 1800 mW')
    """
    values = {
        name: each.value if isinstance(each, Figure) else each for name, each in figures.items()
    }
    doubts = {name: each.doubt for name, each in figures.items() if isinstance(each, Figure)}
    return Preset(basis, values, doubts)


def _figure(
    value: str | float, low: float, high: float, basis: Basis, source: Citation, aside: str
) -> Figure:
    if not isinstance(value, str):
        return Figure(value, Doubt(low, high, basis, source, aside))
    unit = value.partition(" ")[2]
    return Figure(value, Doubt(f"{low:g} {unit}", f"{high:g} {unit}", basis, source, aside))


HUANG_2012 = Citation(
    "Huang, Qian, Gerber, Mao, Sen, Spatscheck",
    "A Close Examination of Performance and Power Characteristics of 4G LTE Networks",
    2012,
    "MobiSys, doi 10.1145/2307636.2307658",
)
NARAYANAN_2021 = Citation(
    "Narayanan, Zhang, Zhu, Hassan, Jin, Zhu, Zhang, Rybkin, Yang, Mao, Qian, Zhang",
    "A Variegated Look at 5G in the Wild: Performance, Power, and QoE Implications",
    2021,
    "SIGCOMM, doi 10.1145/3452296.3472923; data: github.com/SIGCOMM21-5G/artifact",
)
"""Its data give rates, slopes and the time to idle. The intervals here come from a bootstrap over
its target rates, widened for other phones and networks. RRC-Probe's round trips after 0 to 40 s of
silence, on two operators' networks, rise and fall with the phase in the cycles of C-DRX and of
paging. This reveals the cycles, and the times of the transitions between states."""

TR_38_840 = Citation(
    "3GPP",
    "TR 38.840 V16.0.0, Study on UE power saving in NR: relative powers of states (Table 18), C-DRX"
    " of section 8.2; by way of 5G-LENA's energy model for ns-3",
    2019,
    "3gpp.org, TR 38.840; NrUeEnergyModel and NrUeDrxModel, University of Moratuwa and CTTC, 2026",
)
"""Relative to deep sleep: light sleep 20, micro sleep 45 (38 above 24 GHz), listening 100 (175).

The table was taken from that model, not from the report itself. A module for ns-3's mmWave cells,
github.com/arghasen10/mmwave-energy, has 45 for sleep, 175 for listening and 350 for receiving.
"""

DA_SILVA_2017 = Citation(
    "da Silva, Mildh, Schliwa-Bertling, Stattin, Vesely",
    "Meeting 5G latency requirements with inactive state",
    2017,
    "Ericsson Technology Review; the 10 ms that 3GPP TR 38.913 asks for are from memory",
)
NRF9160 = Citation(
    "Nordic Semiconductor",
    "nRF9160 Product Specification: modem current consumption, Cat-M1, at 3.7 V",
    2026,
    "infocenter.nordicsemi.com, ps_nrf9160",
)
BOAKS_2022 = Citation(
    "boaks",
    "Zephyr coaps client, power consumption: nRF9160-DK with LTE-M, by a power profiler",
    2022,
    "github.com/boaks/zephyr-coaps-client, docu/POWERCONSUMPTION.md",
)
"""A message of 200 bytes and its answer take 0.8 s, then the network keeps the connection for 10 s.
Together with waking up this takes 0.152 mWh; waking up alone takes 0.1 mWh."""

SIM7000 = Citation(
    "Woo",
    "SIM7000 LTE shield: current consumption on AT&T's LTE-M, measured and of the data sheet",
    2021,
    "github.com/botletics/SIM7000-LTE-Shield/wiki/Current-Consumption",
)
ANDROID = Citation(
    "Google",
    "Android power profiles: modem and Wi-Fi controller currents of phones with Google Tensor",
    2022,
    "source.android.com/docs/core/power/values, power_profile.xml",
)
WIFI_6 = Citation(
    "Liu, Choi",
    "A First Look at Wi-Fi 6 in Action: Throughput, Latency, Energy Efficiency, and Security",
    2023,
    "SIGMETRICS, doi 10.1145/3579451",
)
NORDIC = Citation(
    "Nordic Semiconductor",
    "nRF52840 Product Specification, and S140 SoftDevice Specification",
    2019,
    "infocenter.nordicsemi.com, 4413_417",
)
CC2420 = Citation(
    "Texas Instruments",
    "CC2420: 2.4 GHz IEEE 802.15.4 / ZigBee-Ready RF Transceiver; CC2538, CC2650 for the range",
    2013,
    "ti.com, SWRS041",
)
LATRE_2006 = Citation(
    "Latré, De Mil, Moerman, Dhoedt, Demeester, Van Dierdonck",
    "Throughput and Delay Analysis of Unslotted IEEE 802.15.4",
    2006,
    "Journal of Networks 1(1), doi 10.4304/jnw.1.1.20-28",
)
SARA_N2 = Citation(
    "u-blox", "SARA-N2 series: Power-optimized NB-IoT modules, data sheet", 2021, "UBX-15025564"
)
SINGH_2020 = Citation(
    "Singh, Puluckul, Berkvens, Weyn",
    "Energy Consumption Analysis of LPWAN Technologies and Lifetime Estimation for IoT Application",
    2020,
    "Sensors 20(17), doi 10.3390/s20174794",
)
CASALS_2017 = Citation(
    "Casals, Mir, Vidal, Gomez",
    "Modeling the Energy Performance of LoRaWAN",
    2017,
    "Sensors 17(10), doi 10.3390/s17102364; Semtech, SX1272 and SX1276 data sheets",
)
LORAWAN = Citation(
    "LoRa Alliance",
    "LoRaWAN L2 1.0.4 Specification: class B, up to 128 ping slots of 30 ms in a period of 128 s",
    2020,
    "lora-alliance.org, TS001-1.0.4",
)
GUNARATNE_2008 = Citation(
    "Gunaratne, Christensen, Nordman, Suen",
    "Reducing the Energy Consumption of Ethernet with Adaptive Link Rate (ALR)",
    2008,
    "IEEE Trans. Computers 57(4), doi 10.1109/TC.2007.70836",
)
MLPERF_TINY = Citation(
    "MLCommons",
    "MLPerf Tiny Inference, results v1.2: NUCLEO-L4R5ZI and NUCLEO-H7A3ZI-Q, rate times energy",
    2024,
    "github.com/mlcommons/tiny_results_v1.2",
)
STM32 = Citation(
    "STMicroelectronics",
    "STM32L4R5xx and STM32H7A3xI data sheets: supply current in Stop modes",
    2020,
    "st.com, DS12023 and DS13195",
)
TOP500 = Citation(
    "Geerling",
    "Top500 Benchmark: HPL on single-board computers, power at the supply",
    2026,
    "github.com/geerlingguy/top500-benchmark, issues 3, 13, 18, 25, 30, 33, 38, 43, 48, 51, 90",
)
SBC_REVIEWS = Citation(
    "Geerling", "SBC reviews: idle power draw", 2023, "github.com/geerlingguy/sbc-reviews, issue 21"
)
RASPBERRY_2022 = Citation(
    "Raspberry Pi",
    "Power supplies: typical currents of Raspberry Pi 4B, with monitor and keyboard",
    2022,
    "github.com/raspberrypi/documentation, commit 025e1ad; headless: Geerling, sbc-reviews, 2023",
)
SUSONIC_2024 = Citation(
    "SuSonicTH",
    "uConsole power usage: a CM4 that compiles, display and radios off",
    2024,
    "github.com/SuSonicTH/uConsole, power/README.md; Linpack: Geerling, top500-benchmark, 2026",
)
PI_5_2024 = Citation(
    "Hardwareluxx",
    "Raspberry Pi 5 of 2 and 4 GB under a stress test, measured by Geerling",
    2024,
    "hardwareluxx.de, news 64340; Linpack: github.com/geerlingguy/top500-benchmark, 2026",
)
KAISER_2021 = Citation(
    "Kaiser",
    "A quick look at RPi Zero 2 W",
    2021,
    "github.com/ThomasKaiser/Knowledge, articles/Quick_Review_of_RPi_Zero_2_W.md",
)
CLOUTIER_2016 = Citation(
    "Cloutier, Paradis, Weaver",
    "A Raspberry Pi Cluster Instrumented for Fine-Grained Power Measurement",
    2016,
    "Electronics 5(4):61, doi 10.3390/electronics5040061; the Zero 2 W on the group's own page,"
    " web.eece.maine.edu/~vweaver/group/green_machines.html",
)
JETSON = Citation(
    "NVIDIA",
    "Jetson Nano, TX2, Xavier NX and Orin Nano module data sheets: power modes, peak speed",
    2023,
    "developer.nvidia.com/embedded/downloads",
)
JETSON_FORUM = Citation(
    "NVIDIA developer forums",
    "Jetson Orin Nano 8GB: Lowest Theoretical Operating Power Consumption",
    2025,
    "forums.developer.nvidia.com/t/348662",
)
PRASHANTHI_2022 = Citation(
    "Prashanthi, Kesanapalli, Simmhan",
    "Characterizing the Performance of Accelerated Jetson Edge Devices for Training Deep Learning"
    " Models",
    2022,
    "POMACS 6(3), doi 10.1145/3570604",
)
FLASH_2021 = Citation(
    "C. Yang, Wang, Xu, Chen, Bian, Liu, Liu",
    "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale Smartphone"
    " Data",
    2021,
    "WWW, doi 10.1145/3442381.3449851",
)
AUTOFL_2021 = Citation(
    "Kim, Wu",
    "AutoFL: Enabling Heterogeneity-Aware Energy Efficient Federated Learning",
    2021,
    "MICRO, doi 10.1145/3466752.3480129",
)
CARROLL_2010 = Citation(
    "Carroll, Heiser",
    "An Analysis of Power Consumption in a Smartphone",
    2010,
    "USENIX Annual Technical Conference",
)
YANG_2021 = Citation(
    "Z. Yang, Chen, Saad, Hong, Shikh-Bahaei",
    "Energy Efficient Federated Learning Over Wireless Communication Networks",
    2021,
    "IEEE Trans. Wireless Comm. 20(3), doi 10.1109/TWC.2020.3037554",
)
TRAN_2019 = Citation(
    "Tran, Bao, Zomaya, Nguyen, Hong",
    "Federated Learning over Wireless Networks: Optimization Model Design and Analysis",
    2019,
    "INFOCOM, doi 10.1109/INFOCOM.2019.8737464",
)
HEADERS = Citation(
    "IETF",
    "RFC 9293, RFC 7323 and RFC 5795: TCP, its options, and header compression",
    2022,
    "rfc-editor.org",
)
ECODESIGN = Citation(
    "European Commission",
    "Regulation (EU) 2023/1670: 80 % of a battery's capacity after 800 cycles",
    2023,
    "eur-lex.europa.eu/eli/reg/2023/1670",
)
IMEC_NB_IOT = Citation(
    "imec IDLab",
    "NB-IoT for ns-3: energy-module-nbiot, 220, 46 and 6 mA at 3.6 V",
    2026,
    "github.com/imec-idlab/NB-IoT",
)
YE_NB_IOT = Citation(
    "Ye",
    "LoRaWAN and NB-IoT Energy Models: NBIoTEnergyModel, after Andres-Maldonado et al.",
    2026,
    "github.com/peteryej/LoRaWAN-NBIoTEnergyModels",
)
ROBINSON_2019 = Citation(
    "Robinson",
    "LTE Cat-NB (Narrowband) Performance Evaluation, Stellenbosch University",
    2019,
    "github.com/dan-leo/masters, thesis/v8/3_design.md",
)
BLUEJOULE = Citation(
    "EM Foundation",
    "BlueJoule: sleep of six Bluetooth platforms at 3 V",
    2026,
    "github.com/em-foundation/BlueJoule; nRF52840: Nordic Semiconductor, 2019",
)
EMBER = Citation(
    "Ember",
    "Yearly Electricity Data; how hours differ: U.S. EIA, Hourly Electric Grid Monitor, 2022",
    2025,
    "ember-energy.org/data/yearly-electricity-data, by github.com/thegreenwebfoundation/co2.js;"
    " hours: github.com/HewlettPackard/dc-rl, data/CarbonIntensity",
)
ASLAN_2018 = Citation(
    "Aslan, Mayers, Koomey, France",
    "Electricity Intensity of Internet Data Transmission: Untangling the Estimates",
    2018,
    "J. Industrial Ecology 22(4), doi 10.1111/jiec.12630, abstract; for 2020 as quoted by Mytton,"
    " davidmytton.blog; 0.001 kWh/GB: cloudcarbonfootprint.org",
)
GSMA_2023 = Citation(
    "GSMA Intelligence",
    "Mobile Energy Efficiency Benchmarking, as reported by Smart Energy International; Finland:"
    " Traficom, First study on the energy consumption of communications networks, 2022",
    2023,
    "smart-energy.com, mobile telecom operators target greater energy efficiency; traficom.fi",
)
SPECPOWER = Citation(
    "SPEC",
    "SPECpower_ssj2008 results, collected by Cloud Carbon Footprint",
    2021,
    "github.com/cloud-carbon-footprint/cloud-carbon-coefficients, data/SPECpower-full-results.csv",
)
UPTIME_2023 = Citation(
    "Davis, O'Brien",
    "Large data centers are mostly more efficient, analysis confirms",
    2023,
    "intelligence.uptimeinstitute.com, UII Update 221",
)
