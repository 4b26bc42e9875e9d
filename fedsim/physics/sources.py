"""Where the figures of presets are from: papers, data sheets and published measurements."""

from fedsim.blocks.presets import Source

HUANG_2012 = Source(
    "Huang, Qian, Gerber, Mao, Sen, Spatscheck",
    "A Close Examination of Performance and Power Characteristics of 4G LTE Networks",
    2012,
    "MobiSys, doi 10.1145/2307636.2307658",
)
NARAYANAN_2021 = Source(
    "Narayanan, Zhang, Zhu, Hassan, Jin, Zhu, Zhang, Rybkin, Yang, Mao, Qian, Zhang",
    "A Variegated Look at 5G in the Wild: Performance, Power, and QoE Implications",
    2021,
    "SIGCOMM, doi 10.1145/3452296.3472923; data: github.com/SIGCOMM21-5G/artifact",
)
