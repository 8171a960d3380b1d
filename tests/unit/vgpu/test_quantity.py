import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu import quantity

VALID = {
    "0": 0,
    "1": 1,
    "300m": Fraction(3, 10),
    "0.3": Fraction(3, 10),
    ".3": Fraction(3, 10),
    "+.3": Fraction(3, 10),
    "3.": 3,
    "-1": -1,
    "-300m": Fraction(-3, 10),
    "3e-1": Fraction(3, 10),
    "300e-3": Fraction(3, 10),
    "1E3": 1000,
    "1e+3": 1000,
    "10e18": 10**19,
    "1E": 10**18,
    "1Ei": 2**60,
    "1n": Fraction(1, 10**9),
    "1u": Fraction(1, 10**6),
    "3k": 3000,
    "1M": 10**6,
    "1G": 10**9,
    "1T": 10**12,
    "1P": 10**15,
    "1Ki": 2**10,
    "1Mi": 2**20,
    "2Gi": 2**31,
    "1Ti": 2**40,
    "1Pi": 2**50,
    "1.5Gi": 3 * 2**29,
    "007": 7,
}


@pytest.mark.parametrize("text", VALID)
def test_a_quantity_is_its_exact_number(text: str) -> None:
    assert quantity.parse(text) == VALID[text]


MALFORMED = [
    *("", " ", "m", ".", "+", "-", "e3", "Ki", ".m", "--1", "+-1", "1 ", " 5", "5\n", "\t5", "1 m"),
    *("NaN", "nan", "Infinity", "inf", "-inf", "1_000", "1,000", "1.2.3", "1..2", "0x10", "0b1"),
    *("1K", "1ki", "1KI", "1gi", "1GB", "1mi", "1Kib", "1mm", "1mKi", "300mm", "1M1", "1e3m"),
    *("1e", "1e+", "1e1.5", "1ee3", "1e3e3", "1e 3", "1E+-3", "30%", "1/3", "True", "None"),
    *(
        "\N{ARABIC-INDIC DIGIT ONE}",
        "\N{ARABIC-INDIC DIGIT THREE}00m",
        "1e\N{ARABIC-INDIC DIGIT ONE}",
    ),
    *("\N{FULLWIDTH DIGIT ONE}", "1\N{SUPERSCRIPT TWO}", "\N{MINUS SIGN}1"),
    *("1\N{NO-BREAK SPACE}", "\ufeff1", "1\x00"),
]


@pytest.mark.parametrize("text", MALFORMED, ids=ascii)
def test_what_kubernetes_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a Kubernetes quantity such as 300m"):
        quantity.parse(text)


def test_the_length_is_bounded() -> None:
    assert quantity.parse("0." + "3" * 30) == Fraction(int("3" * 30), 10**30)
    for text in ("0." + "3" * 31, "1" * 33, " " * 33, "1" * 1_000_000):
        with pytest.raises(ValueError, match="longer than 32 characters"):
            quantity.parse(text)


@pytest.mark.parametrize("text", ["1e3000000", "1e-3000000", "1e2147483648", "1e" + "9" * 30])
def test_a_huge_exponent_costs_nothing(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ValueError, match="exponent beyond 99"):
        quantity.parse(text)
    assert time.process_time() - start < 0.1


def test_the_exponents_up_to_the_bound_are_read() -> None:
    assert quantity.parse("1e99") == 10**99
    assert quantity.parse("1e-99") == Fraction(1, 10**99)
    assert quantity.parse("1e0099") == 10**99


# apimachinery's grammar, built piece by piece beside the number that it stands for.

SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in zip("num", (-9, -6, -3), strict=True)},
    **{suffix: Fraction(10) ** (3 * i) for i, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(2) ** (10 * i) for i, suffix in enumerate("KMGTPE", 1)},
}
digits = st.text("0123456789", min_size=1, max_size=8)
unsigned = st.one_of(
    digits.map(lambda whole: (whole, Fraction(int(whole)))),
    digits.map(lambda whole: (f"{whole}.", Fraction(int(whole)))),
    digits.map(lambda part: (f".{part}", Fraction(int(part), 10 ** len(part)))),
    st.tuples(digits, digits).map(
        lambda both: (".".join(both), Fraction(int("".join(both)), 10 ** len(both[1])))
    ),
)
signs = st.sampled_from([("", 1), ("+", 1), ("-", -1)])
suffixes = st.sampled_from(list(SUFFIXES.items()))
exponents = st.builds(
    lambda letter, sign, power: (f"{letter}{sign[0]}{power}", Fraction(10) ** (sign[1] * power)),
    st.sampled_from("eE"),
    signs,
    st.integers(0, 99),
)


@given(signs, unsigned, suffixes | exponents)
def test_every_form_of_the_grammar_is_read(
    sign: tuple[str, int], number: tuple[str, Fraction], suffix: tuple[str, Fraction]
) -> None:
    text = sign[0] + number[0] + suffix[0]
    assert quantity.parse(text) == sign[1] * number[1] * suffix[1]


@given(st.text("0123456789.+-eEnumkKMGi% _", max_size=12) | st.text(max_size=12))
def test_anything_else_is_refused_and_nothing_else_is_raised(text: str) -> None:
    number = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
    if re.fullmatch(rf"{number}(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{{1,2}})", text):
        quantity.parse(text)
    elif not re.fullmatch(rf"{number}[eE][+-]?0*[0-9]{{1,2}}", text):
        with pytest.raises(ValueError, match=r"exponent|not a Kubernetes quantity"):
            quantity.parse(text)


@given(st.fractions(min_value=0, max_value=10**6, max_denominator=10**6))
def test_milli_rounds_up_to_thousandths_and_is_canonical(value: Fraction) -> None:
    text = quantity.milli(value)
    assert value <= quantity.parse(text) < value + Fraction(1, 1000)
    assert re.fullmatch(r"[0-9]+m?", text)
    assert not text.endswith("000m")


@given(st.fractions(min_value=0, max_value=10**6), st.integers(1, 6))
def test_a_decimal_rounds_down_and_is_plain(value: Fraction, places: int) -> None:
    text = quantity.decimal(value, places)
    assert quantity.plain(text) <= value < quantity.plain(text) + Fraction(1, 10**places)
    assert re.fullmatch(r"(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Fraction(3, 10), "0.3"), (Fraction(34, 100), "0.34"), (Fraction(1), "1"), (Fraction(0), "0")],
)
def test_decimals_as_people_write_them(value: Fraction, text: str) -> None:
    """B87: never 0.30000000000000004, never an exponent."""
    assert quantity.decimal(value, 2) == text


def test_a_plain_number_has_no_suffix() -> None:
    assert quantity.plain("0.3") == Fraction(3, 10)
    assert quantity.plain("3e-1") == Fraction(3, 10)
    for text in ("300m", "1Ki", "1E", "0.3k"):
        with pytest.raises(ValueError, match=r"not a plain number such as 0\.3"):
            quantity.plain(text)
    for text in ("", "30%", "nan", " 1"):
        with pytest.raises(ValueError, match="not a"):
            quantity.plain(text)
