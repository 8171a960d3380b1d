import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from certs import issue
from certs.model import KeyPair
from milligpu.processes import write_pair
from webhook.tls import Certificate

SECOND = timedelta(seconds=1)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
AUTHORITY = issue.ca(issue.fresh(NOW), timedelta(days=36500))


def pair(begin: datetime, end: datetime) -> KeyPair:
    fresh = issue.fresh(begin + issue.BACKDATE)
    return issue.leaf(fresh, end - fresh.now, AUTHORITY, ["webhook"])


def served(folder: Path, given: KeyPair) -> Certificate:
    write_pair(folder, given)
    certificate = Certificate(folder)
    assert certificate.context()
    return certificate


# Both ways to write a year, both centuries, and the turns from one to the other.
TIMES = st.integers(-76 * 365 * 86400, 90 * 365 * 86400).map(lambda number: NOW + number * SECOND)


@given(TIMES, TIMES)
def test_the_times_of_any_certificate_are_read(
    tmp_path_factory: pytest.TempPathFactory, one: datetime, other: datetime
) -> None:
    begin, end = sorted([one, other])
    found = served(tmp_path_factory.mktemp("tls"), pair(begin, end + SECOND))
    assert (found.begin, found.end) == (begin, end + SECOND)


def test_of_a_chain_the_first_one_counts(tmp_path: Path) -> None:
    leaf = pair(NOW, NOW + SECOND)
    chain = b"a comment\n" + leaf.certificate + AUTHORITY.certificate
    assert served(tmp_path, KeyPair(chain, leaf.key)).end == NOW + SECOND


def test_it_is_good_from_its_first_second_to_before_its_last(tmp_path: Path) -> None:
    state = served(tmp_path, pair(NOW, NOW + 3 * SECOND)).state
    times = "the served certificate is valid from 2026-11-30T12:00:00Z to 2026-11-30T12:00:03Z"
    for second, is_valid in ((-1, False), (0, True), (2, True), (3, False)):
        said = f"{times}, and here it is 2026-11-30T{NOW + second * SECOND:%H:%M:%S}Z"
        start = "ok" if is_valid else "not ready"
        assert state(NOW + second * SECOND) == (is_valid, f"{start}: {said}")


def test_before_the_first_good_pair_it_is_not_good(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path)
    assert certificate.context() is None
    assert certificate.state(NOW)[0] is False


def test_a_bad_pair_leaves_the_end_of_what_is_served(tmp_path: Path) -> None:
    found, later = served(tmp_path, pair(NOW, NOW + SECOND)), pair(NOW, NOW + 9 * SECOND)
    kept = found.context()
    for bad in (
        KeyPair(later.certificate, b""),
        KeyPair(later.certificate, AUTHORITY.key),
        KeyPair(later.certificate[:300], later.key),
        KeyPair(b"", b""),
    ):
        write_pair(tmp_path, bad)
        with capture_logs() as lines:
            assert found.context() is kept
        assert [line["event"] for line in lines] == ["certificate unusable"]
        assert found.end == NOW + SECOND
    write_pair(tmp_path, later)
    assert found.context() is not kept
    assert found.end == NOW + 9 * SECOND


def test_what_cannot_be_dated_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No API server would take it; that OpenSSL does is made up here."""
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", lambda *_: None)
    write_pair(tmp_path, KeyPair(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END", b""))
    with capture_logs() as lines:
        assert Certificate(tmp_path).context() is None
    assert lines[0]["fault"] == "its time of validity cannot be read"
