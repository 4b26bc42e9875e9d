"""The claims of the papers: which method of a figure needs less of which count than others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

RADIOS = {
    "lte": "LTE 2012",
    "lte-2020": "LTE 2020",
    "5g-low": "5G",
    "wifi": "Wi-Fi",
    "nb-iot": "NB-IoT",
    "lora-sf7": "LoRa",
    "ethernet": "wired",
}
"""Presets on which every client is, and what tables call them."""

COSTS = {
    "round": "rounds",
    "transmissions": "messages",
    "bits": "bits",
    "t": "time",
    "joules": "energy",
}
"""The counts of claims."""


@dataclass(frozen=True)
class Claim:
    """That one method needs less than others until where a number of the row is measured.

    Attributes:
        says: what the paper claims, in a line.
        better: the method that needs less, as the row calls it.
        worse: the others; of several the cheapest counts, in each cost and under each seed apart.
        counted: what the paper counts, keys of `COSTS`.
        measure: of the row; costs are those until where it is taken, or, of rounds that it adds
            up, those of these rounds.
        words: by how much, as the paper puts it; empty where it does not.
        factor: between which factors that is.
    """

    says: str
    better: str
    worse: tuple[str, ...]
    counted: tuple[str, ...]
    measure: str
    words: str = ""
    factor: tuple[float, float] = (1, inf)

    @property
    def labels(self) -> tuple[str, ...]:
        """The methods, the better one first."""
        return (self.better, *self.worse)

    @property
    def against(self) -> str:
        """The other methods in words."""
        if len(self.worse) == 1:
            return self.worse[0]
        return f"the cheapest of {', '.join(self.worse[:-1])} and {self.worse[-1]}"


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper, whose runs its claims are tested on.

    Attributes:
        paper, row: a file of analysis/papers, and its row: all settings are those of the row.
        claims: what the paper says of it.
        case: of the row.
        overrides: fewer rounds than the row's, where its claims need no more.
        late: whether deadlines in place of beacons are tried, too: a training a radio.
        small: whether messages fit a LoRa radio, which may send 1 % of the time.
    """

    paper: str
    row: str
    claims: tuple[Claim, ...]
    case: str = ""
    overrides: tuple[str, ...] = ()
    late: bool = False
    small: bool = False

    @property
    def labels(self) -> Sequence[str]:
        """The methods of its claims."""
        return list(dict.fromkeys(label for claim in self.claims for label in claim.labels))

    @property
    def radios(self) -> Sequence[str]:
        """The radios it is priced on."""
        return [radio for radio in RADIOS if self.small or not radio.startswith("lora")]


_SENT = ("transmissions",)
_BOTH = ("transmissions", "round")
_OTHERS = ("HB", "LAG", "GD")
_FEWEST = Claim("CHB needs the fewest transmissions", "CHB", _OTHERS, _SENT, "transmissions")
_LAG = Claim(
    "CHB needs fewer transmissions and iterations than LAG", "CHB", ("LAG",), _BOTH, "transmissions"
)

_IN_2000 = Claim(
    "CHB needs fewer transmissions than HB and GD in 2,000 iterations",
    "CHB",
    ("HB", "GD"),
    _SENT,
    "transmissions",
    "191 against 18,000",  # Table III prints both counts
    (50, 200),
)


def _of_hb(words: str, low: float, high: float = inf) -> Claim:
    says = "CHB needs fewer transmissions than HB"
    return Claim(says, "CHB", ("HB",), _SENT, "transmissions", words, (low, high))


_CHB = {
    "chb-figure-2": Experiment("chb", "figure-2", (_FEWEST, _LAG), late=True, small=True),
    "chb-figure-3": Experiment("chb", "figure-3-lag", (_FEWEST, _LAG), small=True),
    "chb-table-1-linear": Experiment(
        "chb", "table-1-linear", (_of_hb("less than half", 2), _FEWEST), late=True, small=True
    ),
    "chb-table-1-lasso": Experiment(
        "chb", "table-1-lasso", (_of_hb("less than half", 2), _FEWEST), small=True
    ),
    "chb-table-1-network": Experiment(
        "chb",
        "table-1-network",
        (_of_hb("only 24 % of them", 1 / 0.27, 1 / 0.21), _FEWEST),
        overrides=("seeds=2",),  # of the row's ten, which take minutes
    ),
    **{
        f"chb-table-2-{task}": Experiment("chb", f"table-2-{task}", (_FEWEST,), small=True)
        for task in ("linear", "lasso", "logistic")
    },
    "chb-table-2-network": Experiment("chb", "table-2-network", (_FEWEST,)),
    **{
        f"chb-table-3-{task}": Experiment("chb", f"table-3-{task}", (_IN_2000,))
        for task in ("linear", "lasso")
    },
    "chb-figure-10-small": Experiment(
        "chb",
        "figure-10",
        (
            Claim(
                "At the step 2.2e-8 CHB needs fewer transmissions than LAG to an error of 1e4",
                "CHB",
                ("LAG",),
                _SENT,
                "transmissions to 1e4",
            ),
        ),
        "2.2e-8",
    ),
    "chb-figure-10-large": Experiment(
        "chb",
        "figure-10",
        (
            Claim(
                "At the step 2.2e-7 LAG needs fewer transmissions than CHB to an error of 1e4",
                "LAG",
                ("CHB",),
                _SENT,
                "transmissions to 1e4",
            ),
        ),
        "2.2e-7",
    ),
    "chb-figure-11": Experiment(
        "chb",
        "figure-11-lag",
        (
            Claim(
                "With eps1 = 0.01/(alpha^2 M^2) CHB saves some transmissions of HB",
                "c = 0.01",
                ("HB",),
                _SENT,
                "transmissions",
            ),
            Claim(
                "With eps1 = 0.1/(alpha^2 M^2) it saves more",
                "c = 0.1",
                ("c = 0.01",),
                _SENT,
                "transmissions",
            ),
        ),
        small=True,
    ),
}

_FEDSGM = {
    "fedsgm-figure-1": Experiment(
        "fedsgm",
        "figure-1",
        tuple(
            Claim(
                f"Soft switching breaks the constraint in fewer rounds than hard, {kept}",
                f"soft, {kept}",
                (f"hard, {kept}",),
                ("round",),
                "rounds with g > 0.1",
                "around 4 times fewer",
                (3, 5),
            )
            for kept in ("k = d", "k = d/2", "k = d/10")
        ),
        small=True,
    )
}

_FOUR = ("FedIter-HT", "FedMiD", "FedDualAvg", "FedAvg")
_FASTER = Claim(
    "FedGradMP is faster than the other methods, in rounds and in wall-clock time",
    "FedGradMP",
    _FOUR,
    ("round", "t"),
    "rounds to 0.9",
)
_LINEARLY = Claim(
    "FedIter-HT converges linearly, but slower than FedGradMP",
    "FedGradMP",
    ("FedIter-HT",),
    ("round", "t"),
    "rounds to 0.3",
)

_FEDGRADMP = {
    "fedgradmp-figure-3": Experiment("fedgradmp", "figure-3", (_FASTER, _LINEARLY)),
    "fedgradmp-figure-4": Experiment("fedgradmp", "figure-4", (_FASTER,), "alpha = 0.5"),
    "fedgradmp-figure-10": Experiment(
        "fedgradmp",
        "figure-10",
        (
            Claim(
                "FedGradMP converges faster with 15 local iterations than with 3",
                "K = 15",
                ("K = 3",),
                ("round",),
                "rounds to 0.005",
            ),
        ),
        "noiseless",
    ),
    "fedgradmp-figure-11": Experiment(
        "fedgradmp",
        "figure-11",
        (
            Claim(
                "FedGradMP converges faster with cohorts of 30 than of 10",
                "30 clients",
                ("10 clients",),
                ("round",),
                "rounds to 0.005",
            ),
        ),
        "noiseless",
    ),
}

_BANDWIDTH = "outperforms Distributed-IHT in rounds and bandwidth (abstract)"


def _rounds_of(better: str, words: str, low: float, high: float) -> Claim:
    worse = ("Distributed-IHT",)
    says = f"{better.partition(',')[0]} needs fewer rounds than Distributed-IHT"
    return Claim(says, better, worse, ("round",), "rounds", words, (low, high))


_FED_HT = {
    "fed-ht-figure-3-grid": Experiment(
        "fed-ht",
        "figure-3-regression",
        (_rounds_of("FedIter-HT", "about 5 times less", 4, 7),),
        "on the grid",
    ),
    "fed-ht-figure-3-rate": Experiment(
        "fed-ht",
        "figure-3-regression",
        (
            _rounds_of("FedIter-HT, K = 10", "about 5 times less", 4, 7),
            Claim(
                f"Fed-HT {_BANDWIDTH}",
                "Fed-HT, K = 10",
                ("Distributed-IHT",),
                ("round", "bits"),
                "rounds",
            ),
            Claim(
                "FedIter-HT communicates less than Fed-HT, as its clients' messages are sparse"
                " (text, no figure)",
                "FedIter-HT, K = 10",
                ("Fed-HT, K = 10",),
                ("bits",),
                "bits",
            ),
        ),
        "at the rate 1e-4",
        ("seeds=3",),
    ),
    "fed-ht-figure-3-ii-grid": Experiment(
        "fed-ht",
        "figure-3-classification",
        (_rounds_of("FedIter-HT", "about 4 times less", 3, 5),),
        "on the grid",
    ),
    "fed-ht-figure-3-ii-rate": Experiment(
        "fed-ht",
        "figure-3-classification",
        (_rounds_of("FedIter-HT, K = 5", "about 4 times less", 3, 5),),
        "at the rate 3e-4",
    ),
}


def _composite(row: str, rounds: int) -> Experiment:
    """Return what the paper says of its first two figures."""
    claims = tuple(
        Claim(
            f"{method} converges faster than FedDA and FedMiD",
            method,
            ("FedDA", "FedMiD"),
            ("round",),
            "rounds to an error of 1",
        )
        for method in ("Fast-FedDA", "C-FedDA", "MC-FedDA")
    )
    # One seed: a training of all five methods takes minutes.
    return Experiment("fast-fedda", row, claims, overrides=(f"stop.rounds={rounds}", "seeds=1"))


_FAST_FEDDA = {
    "fast-fedda-figure-1": _composite("figure-1", 1100),
    "fast-fedda-figure-2": _composite("figure-2", 600),
}

EXPERIMENTS: Mapping[str, Experiment] = _CHB | _FEDSGM | _FEDGRADMP | _FED_HT | _FAST_FEDDA
"""The claims by figure, in the order of the papers."""
