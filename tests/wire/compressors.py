"""One compressor of every kind and size, and vectors that are hard on them."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedsim.core.ports import Array
from fedsim.wire import (
    E3M0,
    QSGD,
    Compressor,
    Dithered,
    HardThreshold,
    Identity,
    Natural,
    PowerSGD,
    RandK,
    ScaledSign,
    TernGrad,
    TopK,
    ValueFormat,
)

F64 = ValueFormat.FLOAT64

ALL: dict[str, Compressor] = {
    "identity": Identity(),
    "rand 3": RandK(count=3),
    "rand 40 %": RandK(fraction=0.4, indices="explicit"),
    "top 2": TopK(count=2),
    "top 30 %": TopK(fraction=0.3),
    "threshold": HardThreshold(threshold=0.7),
    "qsgd": QSGD(),
    "qsgd 1": QSGD(levels=1),
    "qsgd 20": QSGD(levels=20),
    "natural": Natural(),
    "terngrad": TernGrad(),
    "sign": ScaledSign(),
    "e3m0": E3M0(),
    "dithered 2": Dithered(bits=2),
    "dithered 5": Dithered(bits=5),
    "low rank": PowerSGD(),
    "rank 3": PowerSGD(rank=3, rows=4),
}


def of_class(kind: str) -> dict[str, Compressor]:
    """Return the compressors of a class."""
    return {name: each for name, each in ALL.items() if each.contract(9).kind == kind}


def hard_vectors(dimension: int) -> dict[str, Array]:
    """Return vectors at which the constants are attained, or nearly."""
    rng = np.random.default_rng(dimension)
    spike = np.zeros(dimension)
    spike[dimension // 2] = -3.0
    dominated = np.ones(dimension)
    dominated[0] = 1 + np.sqrt(dimension)
    return {
        "normal": rng.standard_normal(dimension),
        "heavy": rng.standard_cauchy(dimension),
        "constant": np.full(dimension, -1.0),
        "spike": spike,
        "dominated": dominated,
        "between powers": np.full(dimension, 4 / 3),
        "tiny": 1e-30 * rng.standard_normal(dimension),
        "zero": np.zeros(dimension),
    }


def vectors(largest: float = 1e3, most: int = 20) -> st.SearchStrategy[Array]:
    """Return any vectors whose coordinates are neither huge nor below float32's range."""
    usual = st.floats(-largest, largest).filter(lambda x: not 0 < abs(x) < 1e-30)
    shapes = st.integers(0, most)
    return shapes.flatmap(lambda size: hnp.arrays(np.float64, size, elements=usual))
