from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certs.bundle import merge
from certs.config import Config
from certs.model import Bundles, Held, KeyPair, Stored
from certs.plan import Decision, IssueLeaf, Keep, MakeCa, SetBundles, Wait, plan
from tests.unit.certs.made import CONFIG, DAY, NOW, authority, served

CA = authority()
LEAF = served(CA)
RUBBISH = KeyPair(b"rubbish", b"rubbish")


def stored(pair: KeyPair | None, changed: datetime = NOW) -> Stored | None:
    return Stored(pair, "1", changed) if pair else None


def held(
    ca: KeyPair | None = CA, serving: KeyPair | None = LEAF, bundle: bytes | None = CA.certificate
) -> Held:
    bundles = None if bundle is None else Bundles({"pods": bundle}, "1", NOW - DAY)
    return Held(stored(ca), stored(serving), bundles)


def test_nothing_to_do() -> None:
    assert plan(held(), NOW, CONFIG) == Keep(
        "the serving certificate is good, and renewed from 2027-01-28T12:00:00+00:00"
    )


def test_without_a_webhook_configuration_it_waits() -> None:
    assert plan(held(bundle=None), NOW, CONFIG) == Wait("there is no webhook configuration yet")
    # Not with the certificate: the webhook can start meanwhile.
    assert isinstance(plan(held(serving=None, bundle=None), NOW, CONFIG), IssueLeaf)


CA_FAULTS: dict[str, tuple[KeyPair | None, str]] = {
    "absent": (None, "the CA is not there yet"),
    "rubbish": (RUBBISH, "the CA or its key cannot be read (ValueError)"),
    "half written": (KeyPair(CA.certificate, b""), "the CA or its key cannot be read (ValueError)"),
    "another's key": (KeyPair(CA.certificate, LEAF.key), "the CA does not belong to its key"),
    "a leaf": (
        served(CA, life=CONFIG.ca_life),
        "the CA signs what would not be trusted as webhook.milligpu.",
    ),
    "from the future": (
        authority(now=NOW + 2 * DAY),
        "the CA is not valid before 2026-12-01T11:00:00+00:00",
    ),
    "old": (
        authority(now=NOW - 600 * DAY),
        "the CA has had two thirds of its life; it ends 2027-09-25T12:00:00+00:00",
    ),
    "ended": (
        authority(now=NOW - 1000 * DAY),
        "the CA has had two thirds of its life; it ends 2026-08-21T12:00:00+00:00",
    ),
}


@pytest.mark.parametrize("case", CA_FAULTS)
def test_a_ca_is_made_when_there_is_no_good_one(case: str) -> None:
    ca, reason = CA_FAULTS[case]
    decision = plan(held(ca), NOW, CONFIG)
    assert isinstance(decision, MakeCa)
    said, _, _ = decision.reason.partition("svc: ")  # what follows is the verifier's own
    assert said == reason
    assert decision.over == stored(ca)


BUNDLE_FAULTS = {
    "empty": b"",
    "rubbish": b"rubbish",
    "another CA": authority(1).certificate,
    "an ended CA beside it": CA.certificate + authority(1, NOW - 901 * DAY).certificate,
}


@pytest.mark.parametrize("case", BUNDLE_FAULTS)
def test_a_bundle_is_mended(case: str) -> None:
    wrong = BUNDLE_FAULTS[case]
    bundles = Bundles({"pods": CA.certificate, "templates": wrong}, "1", NOW)
    decision = plan(Held(stored(CA), stored(LEAF), bundles), NOW, CONFIG)
    wanted = {"templates": merge(wrong, CA.certificate, NOW)}
    reason = "our CA is missing, or something unusable is there: templates"
    assert decision == SetBundles(reason, wanted, bundles)


def test_a_ca_is_trusted_before_anybody_serves_what_it_signed() -> None:
    assert isinstance(plan(held(serving=None, bundle=b""), NOW, CONFIG), SetBundles)
    assert isinstance(plan(held(authority(1), bundle=CA.certificate), NOW, CONFIG), SetBundles)


LEAF_FAULTS: dict[str, tuple[KeyPair | None, str]] = {
    "absent": (None, "the serving certificate is not there yet"),
    "rubbish": (RUBBISH, "the serving certificate or its key cannot be read (ValueError)"),
    "half written": (
        KeyPair(b"", LEAF.key),
        "the serving certificate or its key cannot be read (ValueError)",
    ),
    "twice": (
        KeyPair(2 * LEAF.certificate, LEAF.key),
        "the serving certificate or its key is not one PEM block and nothing else",
    ),
    "another's key": (
        KeyPair(LEAF.certificate, CA.key),
        "the serving certificate does not belong to its key",
    ),
    "from the future": (
        served(CA, NOW + 2 * DAY),
        "the serving certificate is not valid before 2026-12-01T11:00:00+00:00",
    ),
    "old": (
        served(CA, NOW - 60 * DAY),
        "the serving certificate has had two thirds of its life; it ends 2026-12-29T12:00:00+00:00",
    ),
    "of another CA": (
        served(authority(1)),
        "the serving certificate would not be trusted as webhook.milligpu.svc:",
    ),
    "for another name": (
        served(CA, names=("webhook.milligpu.svc", "elsewhere")),
        "the serving certificate would not be trusted as webhook.milligpu.svc.cluster.local:",
    ),
    "the CA itself": (CA, "the serving certificate would not be trusted as webhook.milligpu.svc:"),
}


@pytest.mark.parametrize("case", LEAF_FAULTS)
def test_a_leaf_is_issued_when_there_is_no_good_one(case: str) -> None:
    leaf, reason = LEAF_FAULTS[case]
    decision = plan(held(serving=leaf), NOW, CONFIG)
    assert isinstance(decision, IssueLeaf)
    assert decision.reason.startswith(reason)
    assert (decision.ca, decision.over) == (CA, stored(leaf))


OLD_CA = authority(1, NOW - 30 * DAY).certificate


@pytest.mark.parametrize("leaf", [None, RUBBISH, served(authority(1)), served(CA, NOW - 60 * DAY)])
@pytest.mark.parametrize("seconds", [0, 4, 5, 3600, -3600])
def test_a_leaf_waits_until_the_api_servers_have_the_new_ca(
    leaf: KeyPair | None, seconds: int
) -> None:
    changed = NOW - timedelta(seconds=seconds)
    beside_old = Bundles({"pods": OLD_CA + CA.certificate}, "1", changed)
    alone = Bundles({"pods": CA.certificate}, "1", changed)
    # Not for long where the API server's clock is another, and not when nothing else was trusted.
    wanted = Wait if 0 <= seconds < 5 else IssueLeaf
    assert isinstance(plan(Held(stored(CA), stored(leaf), beside_old), NOW, CONFIG), wanted)
    assert isinstance(plan(Held(stored(CA), stored(leaf), alone), NOW, CONFIG), IssueLeaf)


@pytest.mark.parametrize(("age", "wanted"), [(0, Wait), (34, Wait), (35, IssueLeaf)])
def test_who_keeps_resetting_the_bundles_does_not_stop_it(age: int, wanted: type[Decision]) -> None:
    """Each of our repairs changes them, but it is only soon after it came that a CA is news."""
    came = NOW - timedelta(seconds=age)
    bundles = Bundles({"pods": OLD_CA + CA.certificate}, "1", NOW)
    assert isinstance(plan(Held(stored(CA, came), None, bundles), NOW, CONFIG), wanted)


@given(st.timedeltas(timedelta(0), CONFIG.leaf_life))
def test_it_is_kept_for_two_thirds_of_its_life(age: timedelta) -> None:
    decision = plan(held(), NOW + age, CONFIG)
    assert isinstance(decision, Keep if age < CONFIG.leaf_life * 2 / 3 else IssueLeaf)


def test_what_is_back_dated_is_not_old_at_once() -> None:
    short = Config(
        ca_life=timedelta(minutes=30),
        leaf_life=timedelta(minutes=10),
    )
    ca = authority(life=short.ca_life)
    leaf = served(ca, life=short.leaf_life)
    assert isinstance(plan(held(ca, leaf, ca.certificate), NOW, short), Keep)
