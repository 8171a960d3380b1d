"""What to do next about the certificates, and why."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from cryptography import x509
from cryptography.x509 import verification

from certs import bundle, issue
from certs.config import TRUST_DELAY, Config
from certs.model import Bundles, Held, KeyPair, Stored
from vgpu import names

_SERVICE = f"{names.SERVICE}.{names.NAMESPACE}"
SERVED_AS = (f"{_SERVICE}.svc", f"{_SERVICE}.svc.cluster.local", _SERVICE, names.SERVICE)
"""DNS names of the webhook's Service; the API server asks for the first."""
# What else there may be, some read over and others, among them the webhook, stumble at.
_ONE = re.compile(rb"-----BEGIN [A-Z ]+-----\n(?:[\w+/=]{1,64}\n)+-----END [A-Z ]+-----\n")


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do next; after any step there may be more."""

    reason: str


class Wait(Decision):
    """Nothing: something that others make is not there."""


class Keep(Decision):
    """Nothing: all is as it ought to be."""


@dataclass(frozen=True, slots=True)
class MakeCa(Decision):
    """Make a CA."""

    over: Stored | None
    """What it replaces."""


@dataclass(frozen=True, slots=True)
class SetBundles(Decision):
    """Give these entries of the webhook configuration these bundles."""

    entries: Mapping[str, bytes]
    over: Bundles


@dataclass(frozen=True, slots=True)
class IssueLeaf(Decision):
    """Sign a serving certificate with this CA."""

    ca: KeyPair
    over: Stored | None


def plan(held: Held, now: datetime, config: Config) -> Decision:
    """Return the next thing to do.

    The order keeps callers safe: a CA is trusted before anybody serves what it signed.
    """
    fault = _fault(held.ca, config.ca_life, now, partial(_signing_fault, config.leaf_life, now))
    if fault or held.ca is None:
        return MakeCa(f"the CA {fault}", held.ca)
    ca, serving = held.ca.pair, held.serving
    if held.bundles and (wrong := _wrong_bundles(held.bundles.entries, ca, now)):
        reason = f"our CA is missing, or something unusable is there: {', '.join(wrong)}"
        return SetBundles(reason, wrong, held.bundles)
    fault = _fault(serving, config.leaf_life, now, partial(_trust_fault, ca, now))
    if fault and held.bundles and _is_news(held.ca, held.bundles, now, config):
        return Wait("the API servers are given some seconds to trust a new CA")
    if fault or serving is None:
        return IssueLeaf(f"the serving certificate {fault}", ca, serving)
    if held.bundles is None:
        return Wait("there is no webhook configuration yet")
    due = _renewal(x509.load_pem_x509_certificate(serving.pair.certificate), config.leaf_life)
    return Keep(f"the serving certificate is good, and renewed from {due.isoformat()}")


def _fault(
    stored: Stored | None, life: timedelta, now: datetime, more: Callable[[KeyPair], str]
) -> str:
    """Say what is wrong with a pair, as the end of a sentence; empty when nothing is."""
    if stored is None:
        return "is not there yet"
    try:
        certificate = x509.load_pem_x509_certificate(stored.pair.certificate)
        if certificate.public_key() != issue.private_key(stored.pair).public_key():
            return "does not belong to its key"
        if now < certificate.not_valid_before_utc:
            return f"is not valid before {certificate.not_valid_before_utc.isoformat()}"
        if now >= _renewal(certificate, life):
            end = certificate.not_valid_after_utc.isoformat()
            return f"has had two thirds of its life; it ends {end}"
        return more(stored.pair)
    except Exception as unreadable:  # noqa: BLE001 - whatever foreign bytes make a parser raise
        return f"or its key cannot be read ({type(unreadable).__name__})"


def _renewal(certificate: x509.Certificate, life: timedelta) -> datetime:
    # Counted from the end: the start is back-dated, which would be most of a short life.
    return certificate.not_valid_after_utc - life / 3


def _signing_fault(life: timedelta, now: datetime, ca: KeyPair) -> str:
    # Judged by what it would sign: were that no good, there would be no end of signing.
    trial = issue.leaf(issue.Fresh(issue.private_key(ca), 1, now), life, ca, SERVED_AS)
    fault = _trust_fault(ca, now, trial)
    return fault and f"signs what {fault}"


def _may_sign(_: object, __: object, uses: x509.KeyUsage | None) -> None:
    if uses and not uses.key_cert_sign:
        raise ValueError("it may not sign certificates")


_Extensions = verification.ExtensionPolicy
# OpenSSL makes CAs that leave open what they are for, and API servers take them.
_CAS = _Extensions.webpki_defaults_ca().may_be_present(
    x509.KeyUsage, verification.Criticality.AGNOSTIC, _may_sign
)


def _trust_fault(ca: KeyPair, now: datetime, pair: KeyPair) -> str:
    if not (_ONE.fullmatch(pair.certificate) and _ONE.fullmatch(pair.key)):
        return "or its key is not one PEM block and nothing else"
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    store = verification.Store([x509.load_pem_x509_certificate(ca.certificate)])
    builder = verification.PolicyBuilder().store(store).time(now)
    builder = builder.extension_policies(ca_policy=_CAS, ee_policy=_Extensions.webpki_defaults_ee())
    for name in SERVED_AS:
        try:
            builder.build_server_verifier(x509.DNSName(name)).verify(certificate, [])
        except verification.VerificationError as fault:
            return f"would not be trusted as {name}: {fault}"
    return ""


def _is_news(ca: Stored, bundles: Bundles, now: datetime, config: Config) -> bool:
    """Whether an API server may not have this CA yet, and trust only what an older one signed.

    Where its clock is further off than that nobody waits, lest it be for hours; nor long after the
    CA came, lest somebody who keeps resetting the bundles stops us for good.
    """
    is_fresh = abs(now - bundles.changed) < TRUST_DELAY
    is_new = bundles.changed - ca.changed < 2 * config.interval + TRUST_DELAY
    several = any(each.count(b"BEGIN") > 1 for each in bundles.entries.values())
    return is_fresh and is_new and several


def _wrong_bundles(entries: Mapping[str, bytes], ca: KeyPair, now: datetime) -> dict[str, bytes]:
    wanted = {name: bundle.merge(held, ca.certificate, now) for name, held in entries.items()}
    return {name: merged for name, merged in wanted.items() if merged != entries[name]}
