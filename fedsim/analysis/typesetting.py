"""Texts of figures: what others wrote is shown as it is, our own mathematics as mathematics."""

import re
from collections.abc import Mapping

from fedsim.visible import visible

_WORDS = {"gap": "objective less the optimum\n$f - f^\\star$"}

_GREEK = ("alpha", "beta", "eta", "eps")
_ROOT = re.compile(r"\bsqrt\((\w+)\)")
_EQUATION = re.compile(rf"\b({'|'.join(_GREEK)}|[A-Za-z]) ([=<>]) ([\w.+/-]+)")
_POWER = re.compile(r"\b(\d(?:\.\d+)?)e(-?)0*(\d+)\b")


class Maths(str):
    """A text of our own in which $...$ is mathematics."""

    __slots__ = ()


def words(measure: str) -> str:
    """Return what the axis of a measure is called."""
    return _WORDS.get(measure, measure.replace("_", " "))


def drawn(text: str) -> str:
    r"""Return a text for a figure, which is no formula and hides from no legend.

    >>> print(drawn("$a$"), drawn("_b"), drawn(Maths("$a$")))
    \$a\$  _b $a$
    """
    if isinstance(text, Maths):
        return str(text)
    text = visible(text).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def typeset(text: str) -> Maths:
    r"""Return a text of our own with its mathematics set: roots, equations and powers of ten.

    >>> print(typeset("QSGD, sqrt(d) levels"), typeset("alpha = 0.1, K = 3"), typeset("5e-4"))
    QSGD, $\sqrt{d}$ levels $\alpha = 0.1$, $K = 3$ $5\times10^{-4}$
    """
    text = _ROOT.sub(r"$\\sqrt{\1}$", text)
    text = _EQUATION.sub(_equation, text)
    return Maths(_POWER.sub(lambda found: f"${_power(found)}$", text))


def typeset_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what a legend calls each variant, mathematics set."""
    return {variant: typeset(label) for variant, label in labels.items()}


def _equation(found: "re.Match[str]") -> str:
    left, sign, right = found.groups()
    name = f"\\{left}" if left in _GREEK else left
    return f"${name} {sign} {_POWER.sub(_power, right)}$"


def _power(found: "re.Match[str]") -> str:
    """Return a power of ten, without dollars."""
    mantissa, sign, exponent = found.groups()
    times = "" if mantissa == "1" else f"{mantissa}\\times"
    return f"{times}10^{{{sign}{exponent}}}"
