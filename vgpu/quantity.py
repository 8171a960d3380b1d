"""Kubernetes quantities as exact numbers: text in, `Fraction` out, and the other way round.

The grammar is that of apimachinery's `resource.Quantity`, bounded so that no text can cost time.
"""

import re
from fractions import Fraction
from functools import lru_cache

MAX_LENGTH = 32
"""Longest text that is looked at, in characters."""
MAX_EXPONENT = 99
"""Largest decimal exponent, either sign."""

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?"
)
_SUFFIX = {
    **{suffix: Fraction(10) ** (3 * (i - 3)) for i, suffix in enumerate("num")},
    **{suffix: Fraction(10) ** (3 * (i + 1)) for i, suffix in enumerate("kMGTPE")},
    **{suffix + "i": Fraction(1024) ** (i + 1) for i, suffix in enumerate("KMGTPE")},
}


@lru_cache(maxsize=1024)  # a cluster writes the same few over and over
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity such as `300m`, `0.3`, `3e-1` or `2Gi`.

    Raises ValueError, with a message that names the fault but not the value.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"longer than {MAX_LENGTH} characters")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError("not a Kubernetes quantity such as 300m, 0.3 or 2")
    number, suffix, exponent = match.groups()
    if exponent is None:
        return Fraction(number) * (_SUFFIX[suffix] if suffix else 1)
    if abs(int(exponent)) > MAX_EXPONENT:
        raise ValueError(f"an exponent beyond {MAX_EXPONENT}")
    return Fraction(number) * Fraction(10) ** int(exponent)


def plain(text: str) -> Fraction:
    """Return the exact value of a number without a suffix, such as `0.3`. Raises ValueError."""
    if text[-1:].isalpha():
        raise ValueError("not a plain number such as 0.3")
    return parse(text)


def milli(value: Fraction) -> str:
    """Return a value of at least 0 as canonical text, rounded up to thousandths (as of CPUs)."""
    thousandths = -(-value.numerator * 1000 // value.denominator)
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)


def decimal(value: Fraction, places: int) -> str:
    """Return a value of at least 0 as a plain decimal, rounded down, without trailing zeros."""
    whole, rest = divmod(value.numerator * 10**places // value.denominator, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")
