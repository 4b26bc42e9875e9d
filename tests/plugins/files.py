"""Plugins as a user writes them, and the scenarios that name what is in them."""

COMPRESSOR = '''\
from typing import ClassVar, Literal

import numpy as np

from fedsim.wire import Compressor, Contract, Sparse


class EveryOther(Compressor):
    """Every k-th coordinate, from a random one on, times k."""

    kind: Literal["every-other"] = "every-other"
    source: ClassVar[str] = "nobody"
    law: ClassVar[str] = "unbiased, omega = k - 1"
    stride: int = 2

    def part(self, vector, start, form):
        kept = np.arange(start, vector.size, self.stride)
        return Sparse.at(kept, vector * self.stride, form)

    def compress(self, vector, rng, form):
        return self.part(vector, rng.integers(self.stride), form)

    def longest(self, vector, payload):
        return max(self.part(vector, start, payload.format).bits for start in range(self.stride))

    def contract(self, dimension):
        return Contract("unbiased", self.stride - 1)
'''

SPLIT = '''\
from typing import ClassVar, Literal

import numpy as np

from fedsim.problems.splits.base import SizedSplit, group_rows


class Dealt(SizedSplit):
    """Row after row, as cards are dealt."""

    kind: Literal["round-robin"] = "round-robin"
    source: ClassVar[str] = "nobody"

    def assign(self, samples, clients, rng):
        count = self.count(samples.rows, clients)
        return group_rows(np.arange(samples.rows) % count, count)
'''

LOSS = '''\
from typing import ClassVar, Literal

import numpy as np

from fedsim.problems import LinearLoss


class Huber(LinearLoss):
    """Squared error that goes on as a line beyond `width`."""

    kind: Literal["huber"] = "huber"
    source: ClassVar[str] = "Huber, 1964"
    steepest: ClassVar[float] = 1.0
    scale: Literal["sum", "mean"] = "mean"
    width: float = 20.0

    def forward(self, rows, w):
        return (rows.X @ w - rows.t,)

    def total(self, state):
        size, width = np.abs(state[0]), self.width
        return float(np.where(size <= width, size**2 / 2, width * (size - width / 2)).sum())

    def slopes(self, state):
        return np.clip(state[0], -self.width, self.width)

    def curvatures(self, state):
        return np.asarray(np.abs(state[0]) <= self.width, dtype=np.float64)
'''

SELECTION = '''\
from typing import Literal

from fedsim.protocol.participation import Sample


class RoundRobin(Sample):
    """The next few clients, round after round."""

    kind: Literal["by-turns"] = "by-turns"

    def order(self, samples, number, rng):
        first, clients = number * (self.count or 1), len(samples)
        return [(first + one) % clients for one in range(clients)]
'''

AVAILABILITY = '''\
from typing import Literal

from fedsim.core.blocks.quantities import Duration
from fedsim.physics.availability import Availability


class Leaves(Availability):
    """There until a time, and from twice that time on."""

    kind: Literal["leaves"] = "leaves"
    after: Duration

    def timeline(self, rng):
        return True, iter((self.after, 2 * self.after))
'''

CHARGING = '''\
from typing import Literal

from fedsim.core.blocks.quantities import Duration, Power
from fedsim.physics.batteries import Charging
from fedsim.physics.signals import Steps


class Pulsed(Charging):
    """A charger that is on and off in turns."""

    kind: Literal["pulsed"] = "pulsed"
    power: Power
    every: Duration

    def source(self, read):
        return Steps([0.0, self.every], [self.power, 0.0], 2 * self.every)
'''

CARBON = '''\
from typing import Literal

from fedsim.core.blocks.quantities import GramsPerKilowattHour
from fedsim.physics.carbon import Carbon
from fedsim.physics.signals import Steps


class Sunny(Carbon):
    """Clean by day."""

    kind: Literal["sunny"] = "sunny"
    night: GramsPerKilowattHour

    def signal(self, read):
        return Steps([0.0, 43200.0], [0.0, self.night], 86400.0)
'''

LOSSES = '''\
from typing import Literal

from fedsim.physics.packet_loss import PacketLoss


class EveryNth(PacketLoss):
    """One packet of every `one_in` is lost."""

    kind: Literal["every-nth"] = "every-nth"
    every: int = 10

    @property
    def mean(self):
        return 1 / self.every

    def process(self, rng):
        return Counted(self.mean, self.every)


class Counted:
    def __init__(self, mean, every):
        self.mean, self.every, self.sent = mean, every, 0

    def losses(self, packets):
        before = self.sent // self.every
        self.sent += packets
        return self.sent // self.every - before
'''

DEVICE = '''\
from typing import Literal

from fedsim.core.blocks.quantities import Bits, Rate, Speed, Watts
from fedsim.physics.devices import DeviceLaw


class Roofline(DeviceLaw):
    """Bound by its arithmetic, or by its memory."""

    kind: Literal["roofline"] = "roofline"
    speed: Speed
    memory: Rate
    sample: Bits
    active: Watts

    def seconds(self, operations, samples):
        return max(operations / self.speed, samples * self.sample / self.memory)

    def working(self):
        return self.active
'''

SCENARIO = """\
problem:
  loss: {kind: squared, scale: sum, l2: 1}
  data: {kind: sklearn, name: diabetes, preprocess: [standardise]}
algorithm: {kind: gd, step_size: 0.1/L}
fleet:
  - {count: 3, device: phone-mid, radio: lte}
stop: {rounds: 10}
"""

ROOFLINE = (
    "{kind: roofline, speed: 1 Mflop/s, memory: 1 Mbit/s, sample: 80 B, active: 3 W, idle: 1 W,"
    " battery: 9 Wh}"
)

NAMED = {
    "compressor": (COMPRESSOR, "wire.up.compressor={kind: every-other, stride: 3}"),
    "split": (SPLIT, "problem.split.kind=round-robin"),
    "selection": (SELECTION, "participation={kind: by-turns, count: 2}"),
    "availability": (AVAILABILITY, "fleet.0.availability={kind: leaves, after: 1 ms}"),
    "charging": (
        CHARGING,
        "fleet.0.battery={charging: {kind: pulsed, power: 5 W, every: 1 ms}}",
    ),
    "carbon": (CARBON, "fleet.0.carbon={kind: sunny, night: 400 g/kWh}"),
    "device": (DEVICE, f"fleet.0.device={ROOFLINE}"),
    "losses": (LOSSES, "fleet.0.radio={kind: lte, loss: {kind: every-nth, every: 5}}"),
    "loss": (LOSS, "problem.loss.kind=huber"),
}
"""What a plugin adds -> its text, and how a scenario names it."""
