"""Objects that Python may hand over: of each kind one that is made by a number, and some refused.

What is made by the same number is equal; by another, it differs in one leaf, however deep.
"""

import abc
import builtins
import collections
import dataclasses
import enum
import functools
import operator
import random
import re
import threading
import types
from array import array
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import nn

from fedsim.algorithms.censored import GradientDescent

Make = Callable[[int], object]


class Attributes:
    """An object with attributes."""

    def __init__(self, value: object) -> None:
        self.value = value

    def method(self, x: float) -> object:
        """Return something that depends on the attribute."""
        return self.value, x


class Slots:
    """An object without `__dict__`."""

    __slots__ = ("__hidden", "value")

    def __init__(self, value: object) -> None:
        self.__hidden = value
        self.value = 0


class Mixed(Slots):
    """One with slots and attributes."""

    def __init__(self, value: object) -> None:
        super().__init__(0)
        self.more = value


class Listed(list[Any]):
    """A list with a name."""

    name = "a"


class Number(float):
    """A number with its unit."""

    __slots__ = ()


class Grid(np.ndarray[Any, Any]):
    """An array of a class of its own."""


class Pair(NamedTuple):
    """Two values."""

    one: object
    two: object


@dataclasses.dataclass(slots=True)
class Data:
    """A data class."""

    value: object
    rest: list[int] = dataclasses.field(default_factory=list)


class Scaled(nn.Module):
    """A module that has something as an attribute."""

    def __init__(self, value: object) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.value = nn.Linear(2, 2), value

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return outputs."""
        found: torch.Tensor = self.layer(rows)
        return found


def closed_over(value: object) -> Callable[[], object]:
    def inner() -> object:
        return value

    return inner


def nested(value: object) -> Callable[[], object]:
    def outer() -> Callable[[], object]:
        return closed_over(value)

    return outer()


def by_default(value: object) -> Callable[..., object]:
    def given(x: object = value) -> object:
        return x

    return given


def by_keyword(value: object) -> Callable[..., object]:
    def given(*, x: object = value) -> object:
        return x

    return given


def with_attribute(value: object) -> Callable[..., object]:
    def given() -> None: ...

    given.value = value  # type: ignore[attr-defined]  # functions may have any
    return given


def module_of(code: str, **content: object) -> types.ModuleType:
    """Return a module of a user's own, as an import would make it."""
    made = types.ModuleType("users_own")
    vars(made).update(content)
    exec(code, vars(made))  # noqa: S102 - its purpose
    return made


def read_global(number: int) -> object:
    return module_of(f"scale = {number}\ndef f(x): return scale * x").f


def read_through_module(number: int) -> object:
    inner = module_of(f"scale = {number}\nother = 1")
    return module_of("def f(x): return inner.scale * x", inner=inner).f


def called_global(number: int) -> object:
    return module_of(f"def g(x): return x + {number}\ndef f(x): return g(x)").f


def class_of(number: int) -> type:
    class Made:
        scale: ClassVar[int] = number

        def f(self) -> int:
            return self.scale

    return Made


def inherit(number: int) -> type:
    class Below(class_of(number)):  # type: ignore[misc]  # a base that is made
        pass

    return Below


def with_property(number: int) -> object:
    class Made:
        @property
        def f(self) -> int:
            return number

        @staticmethod
        def g() -> int:
            return 1

    return Made()


def block_of(number: int) -> type:
    class Mine(GradientDescent):
        """A method that closes over a number."""

        kind: Literal["mine"] = "mine"  # type: ignore[assignment]  # a kind of its own

        def extra(self) -> int:
            """Return it."""
            return number

    return Mine


def shared(number: int) -> object:
    one = [0]
    return [one, one if number == 1 else [0]]


def tied(number: int) -> nn.Module:
    torch.manual_seed(0)
    one = nn.Linear(2, 2)
    other = nn.Linear(2, 2)
    other.load_state_dict(one.state_dict())
    return nn.Sequential(one, one if number == 1 else other)


def views(number: int) -> list[torch.Tensor]:
    whole = torch.zeros(4)
    return [whole[:2], whole[:2] if number == 1 else torch.zeros(2)]


def cycle(number: int) -> object:
    made: list[object] = [number]
    made.append({"again": made})
    return made


def deep(number: int) -> object:
    made: object = number
    for _ in range(5000):
        made = [made]
    return made


def hooked(number: int) -> nn.Module:
    torch.manual_seed(0)
    module = nn.Linear(2, 2)
    module.register_forward_hook(closed_over(number))  # type: ignore[arg-type]  # never called
    return module


def member(number: int) -> object:
    class Choice(enum.Enum):
        ONE = 1
        TWO = 2

    return Choice(number)


def cached(number: int) -> object:
    return functools.lru_cache(closed_over(number))


def parametrised(number: int) -> object:
    torch.manual_seed(0)
    layer: Any = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    with torch.no_grad():
        layer.parametrizations.weight.original0 += number
    return layer


def generator_of(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def requires(number: int) -> nn.Module:
    torch.manual_seed(0)
    module = nn.Linear(2, 2)
    module.bias.requires_grad_(number == 1)
    return module


def with_builtins(number: int) -> object:
    """A function whose module has a built-in function of its own."""
    own = {**vars(builtins), "abs": abs if number == 1 else closed_over(0)}
    return module_of("def f(x): return abs(x)", __builtins__=own).f


def registered(number: int) -> type:
    class Made(abc.ABC):  # noqa: B024 - what counts is which classes it counts as its own
        pass

    if number == 1:
        Made.register(int)
    return Made


def renamed(number: int) -> Callable[[], object]:
    made = closed_over(0)
    made.__name__ = f"f{number}"
    return made


class _Own(list[Any]):
    pass


TOLD_APART: dict[str, Make] = {
    "int": lambda n: n,
    "float": lambda n: 0.0 if n == 1 else -0.0,
    "bool and int": lambda n: True if n == 1 else 1,
    "int and float": lambda n: 1 if n == 1 else 1.0,
    "str": str,
    "str and bytes": lambda n: "a" if n == 1 else b"a",
    "complex": lambda n: complex(0, n),
    "tuple": lambda n: (1, (2, n)),
    "tuple and list": lambda n: (1,) if n == 1 else [1],
    "list": lambda n: [1, [n]],
    "list, cut otherwise": lambda n: [["a"], "b"] if n == 1 else [["a", "b"]],
    "dict": lambda n: {"a": {"b": n}},
    "dict, its order": lambda n: {"a": 1, "b": 2} if n == 1 else {"b": 2, "a": 1},
    "dict, its keys": lambda n: {n: 1},
    "ordered dict": lambda n: collections.OrderedDict(a=n),
    "default dict": lambda n: collections.defaultdict(list if n == 1 else dict),
    "counter": lambda n: collections.Counter("a" * n),
    "set": lambda n: {"a", "b", str(n)},
    "frozenset": lambda n: frozenset({("a", n), ("b", 0)}),
    "set and frozenset": lambda n: {1} if n == 1 else frozenset({1}),
    "deque": lambda n: collections.deque([1], maxlen=n),
    "bytearray": lambda n: bytearray([n]),
    "array of Python's": lambda n: array("d", [n]),
    "range": range,
    "slice": lambda n: slice(0, n),
    "decimal": Decimal,
    "fraction": lambda n: Fraction(n, 7),
    "date": lambda n: date(2024, 1, n),
    "path": lambda n: Path("a") / str(n),
    "regular expression": lambda n: re.compile(f"a{n}"),
    "getter": operator.itemgetter,
    "partial": lambda n: functools.partial(int, base=n),
    "partial, its function": lambda n: functools.partial(min if n == 1 else max, 1),
    "built-in function": lambda n: abs if n == 1 else len,
    "built-in method": lambda n: [n].append,
    "shared part": shared,
    "cycle": cycle,
    "deeply nested": deep,
    "attribute": Attributes,
    "attribute's type": lambda n: Attributes(np.float32(1) if n == 1 else np.float64(1)),
    "slot": Slots,
    "slot and attribute": Mixed,
    "list's content": lambda n: Listed([n]),
    "subclass of float": Number,
    "subclass of list": lambda n: [1] if n == 1 else _Own([1]),
    "named tuple": lambda n: Pair(1, n),
    "data class": Data,
    "enumeration": member,
    "simple namespace": lambda n: types.SimpleNamespace(a=n),
    "bound method": lambda n: Attributes(n).method,
    "lambdas on one line": lambda n: (lambda x: x + 1, lambda x: x + 2)[n - 1],
    "code": lambda n: module_of(f"def f(x): return x {'+-'[n - 1]} 1").f,
    "names in code": lambda n: module_of(f"def f(x): return x.{'ab'[n - 1]}").f,
    "closure": closed_over,
    "closure in a closure": nested,
    "default": by_default,
    "keyword's default": by_keyword,
    "function's attribute": with_attribute,
    "function's name": renamed,
    "global": read_global,
    "built-in function of a module": with_builtins,
    "global of a module": read_through_module,
    "global function's code": called_global,
    "cached function": cached,
    "class body": class_of,
    "base class": inherit,
    "class registered as a subclass": registered,
    "property": with_property,
    "block": block_of,
    "random": random.Random,
    "generator of NumPy": np.random.default_rng,
    "random state of NumPy": np.random.RandomState,
    "generator of PyTorch": generator_of,
    "number of NumPy": np.int16,
    "ufunc": lambda n: np.sin if n == 1 else np.cos,
    "array": lambda n: np.array([[1, n]]),
    "array's type": lambda n: np.zeros(2, "f4" if n == 1 else "i4"),
    "array's shape": lambda n: np.zeros((2, 3) if n == 1 else (3, 2)),
    "array's order": lambda n: np.zeros((2, 3), order="C" if n == 1 else "F"),
    "array of objects": lambda n: np.array([n, "a"], dtype=object),
    "subclass of array": lambda n: np.array([n]).view(Grid),
    "dtype": lambda n: np.dtype(f"f{4 * n}"),
    "tensor": lambda n: torch.tensor([1.0, n]),
    "tensor's type": lambda n: torch.zeros(2, dtype=torch.float16 if n == 1 else torch.bfloat16),
    "tensor's views": views,
    "parameter": lambda n: nn.Parameter(torch.tensor([float(n)])),
    "parameter that is trained": requires,
    "dtype of PyTorch": lambda n: torch.float32 if n == 1 else torch.float64,
    "function of PyTorch": lambda n: torch.tanh if n == 1 else torch.relu,
    "module's weights": lambda n: (torch.manual_seed(n), nn.Linear(2, 2))[1],
    "module's attribute": Scaled,
    "module's dict": lambda n: Scaled({"k": n}),
    "module's tuple": lambda n: Scaled((1, n)),
    "module's set": lambda n: Scaled({1, n + 1}),
    "module's tensor": lambda n: Scaled(torch.tensor(n)),
    "module's function": lambda n: Scaled(torch.tanh if n == 1 else torch.sin),
    "module's hook": hooked,
    "tied layers": tied,
    "parametrised module": parametrised,
    "recurrent module": lambda n: (torch.manual_seed(0), nn.LSTM(2, 2, dropout=0.0, num_layers=n))[
        1
    ],
    "loss": lambda n: nn.CrossEntropyLoss(label_smoothing=n / 10),
    "loss with weights": lambda n: nn.CrossEntropyLoss(weight=torch.tensor([1.0, n])),
}
"""By the name of a kind: what makes one of the number 1 or 2."""


class Guarded:
    """An object that holds a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def reads(text: str) -> object:
    """Return a function of a user's own with this body."""
    code = "import datetime, os, random, subprocess, sys, time, torch\nimport numpy as np\n"
    code += "from datetime import datetime as moment\nfrom numpy import load as taken\n"
    return module_of(f"{code}def f(x):\n    {text}").f


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "open file": (lambda: Path(__file__).open(), "TextIOWrapper"),  # noqa: SIM115 - never read
    "iterator": (lambda: iter([1]), "list_iterator"),
    "generator": (lambda: (each for each in [1]), "a generator"),
    "lock": (threading.Lock, "lock"),
    "attribute that is a lock": (Guarded, "lock is a _thread.lock"),
    "lock in a closure": (lambda: closed_over(threading.Lock()), "value is a _thread.lock"),
    "lock in a module": (lambda: Scaled(threading.Lock()), "value is a _thread.lock"),
    "set of objects": (lambda: {Attributes(1), Attributes(2)}, "has no order"),
    "function that opens a file": (lambda: reads("return open(x).read()"), "uses open"),
    "function that evaluates text": (lambda: reads("return eval(x)"), "uses eval"),
    "function that looks at all globals": (lambda: reads("return globals()"), "uses globals"),
    "function that reads the environment": (lambda: reads("return os.environ"), "environ"),
    "function that loads weights": (lambda: reads("return torch.load(x)"), "it reads files"),
    "function that loads arrays": (lambda: reads("return taken(x)"), "uses taken"),
    "function that runs a program": (lambda: reads("subprocess.run(x)"), "uses subprocess"),
    "function that maps a file": (lambda: reads("return torch.from_file(x)"), "uses from_file"),
    "function that gets weights": (
        lambda: reads("return torch.hub.load_state_dict_from_url(x)"),
        "uses load_state_dict_from_url",
    ),
    "function that looks into a folder": (lambda: reads("return os.listdir(x)"), "uses listdir"),
    "function that reads its text": (lambda: reads("return f.__doc__"), "uses __doc__"),
    "function that looks at all built-ins": (lambda: reads("return __builtins__"), "uses __built"),
    "function that asks the clock": (lambda: reads("return time.time()"), "uses time"),
    "function that asks a class of dates": (lambda: reads("return moment.now()"), "the clock"),
    "function that asks for the day": (lambda: reads("return datetime.date.today()"), "the clock"),
    "draws from Python's generator": (lambda: reads("return random.random()"), "of random"),
    "draws from NumPy's generator": (lambda: reads("return np.random.rand()"), "of numpy"),
    "function that looks at all modules": (lambda: reads("return sys.modules"), "uses sys"),
    "function that imports what is not there": (lambda: reads("import not_there"), "imports"),
    "made by NumPy of a function": (lambda: np.frompyfunc(abs, 1, 1), "ufunc"),
    "memory of another": (lambda: memoryview(b"a"), "memoryview"),
    "sparse tensor": (lambda: torch.eye(2).to_sparse(), "sparse"),
    "tensor of a graph": (lambda: torch.ones(1, requires_grad=True) * 2, "computed from others"),
    "tensor without numbers": (lambda: torch.empty(1, device="meta"), "without numbers"),
    "scripted module": (lambda: torch.jit.script(nn.Linear(1, 1)), ""),
    "context of a thread": (threading.local, "_local"),
    "record of objects": (lambda: np.zeros(1, [("a", object)]), "an array of"),
}
"""By the name of a kind: what makes one, and what the reason says."""
