from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpu import slots
from vgpu.slots import Slot, Whole

CARD = "GPU-fef8089b-4820-abfc-e83e-94318197576e"


@pytest.mark.parametrize(
    ("share", "count"),
    [("0", 0), ("0.001", 1), ("0.01", 1), ("0.3", 30), ("0.333", 34), ("0.999", 100), ("1", 100)],
)
def test_a_share_is_rounded_up_to_slots(share: str, count: int) -> None:
    assert slots.count(Fraction(share)) == count


@given(st.fractions(min_value=0, max_value=1))
def test_nobody_gets_less_than_asked_and_less_than_a_slot_more(share: Fraction) -> None:
    assert share <= slots.share(slots.count(share)) < share + Fraction(1, 100)


@given(st.integers(0, 100))
def test_a_count_is_its_own_share(count: int) -> None:
    assert slots.count(slots.share(count)) == count


cards = st.from_regex(r"(GPU|SIM)-[0-9a-f]{1,8}(-[0-9a-f]{4}){0,3}", fullmatch=True)
devices = st.builds(Slot, cards, st.integers(0, 99)) | st.builds(Whole, cards)


@given(devices)
def test_an_id_is_read_as_what_it_was_written_for(device: Slot | Whole) -> None:
    assert slots.parse(str(device)) == device


@pytest.mark.parametrize("card", [CARD, "SIM-0", "MIG-" + CARD[4:]])
def test_ids_are_a_cards_own_id_and_a_suffix(card: str) -> None:
    made = slots.of_card(card)
    assert [str(slot) for slot in made] == [f"{card}::{number}" for number in range(100)]
    assert str(Whole(card)) == f"{card}::whole"
    assert max(len(str(device)) for device in (*made, Whole(card))) <= 63


@pytest.mark.parametrize(
    "text",
    [
        *("", "::", CARD, f"{CARD}::", "::0", f"{CARD}:0", f"{CARD}::100", f"{CARD}::-1"),
        *(f"{CARD}::01", f"{CARD}::1.0", f"{CARD}:: 1", f"{CARD}::1 ", f"{CARD}::1\n"),
        *(f"{CARD}::Whole", f"{CARD}::1::2", f"{CARD}::٣", "-a::1", "a b::1", "é::1"),
        *("nvidia0", "x" * 60 + "::10"),
    ],
    ids=ascii,
)
def test_what_is_no_id_of_ours_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="not a slot id: ") as fault:
        slots.parse(text)
    assert repr(text)[:80] in str(fault.value)


def test_a_message_about_a_long_id_stays_short() -> None:
    with pytest.raises(ValueError, match="not a slot id") as fault:
        slots.parse("x" * 10_000)
    assert len(str(fault.value)) < 120


def test_a_card_whose_ids_would_be_too_long_is_refused() -> None:
    longest = "x" * (63 - len("::whole"))
    assert len(slots.of_card(longest)) == 100
    assert slots.parse(f"{longest}::whole") == Whole(longest)
    with pytest.raises(ValueError, match="card id too long"):
        slots.of_card(longest + "x")
