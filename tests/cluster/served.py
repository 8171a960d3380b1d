"""What the webhook's replicas serve beside what is stored, sampled from inside the node.

Every sample makes TLS handshakes of its own, through the Service and with each pod, as the API
server does: for the Service's name, trusting the caBundle of that moment. The API server keeps its
connections, so that a bad pair could hide behind old ones; how many it opens is counted as well.

with watched(node) as watch:
    watch.samples()[-1].whole
"""

import base64
import itertools
import json
import socket
import ssl
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cluster.api import Api, ApiError, Json
from tests.cluster.controlplane import connect
from tests.cluster.node import URL, Node
from tests.cluster.webhooks import CONFIGURATION
from vgpu import names

PERIOD = 0.5
"""Seconds from one sample to the next."""
PATIENCE = 2
"""Seconds for a handshake."""
ROOT = Path(__file__).parents[2]
SERVICE, PORT, POD_PORT = "service", 443, 8443
CALLED = f"{names.SERVICE}.{names.NAMESPACE}.svc"
"""The name for which the API server wants the certificate."""
PODS = "pods?labelSelector=app.kubernetes.io/component%3Dwebhook"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look; certificates are known by their serial numbers, in hexadecimal."""

    at: float
    """Unix seconds."""
    ca: str
    """The stored CA; empty for none or for what cannot be read."""
    leaf: str
    """The stored serving certificate, likewise."""
    related: bool
    """Whether that CA signed it."""
    bundles: list[dict[str, float]]
    """The different caBundles of the entries, each CA with its end in Unix seconds."""
    served: dict[str, str]
    """What was served and trusted, by the pod's name or `service`."""
    faults: dict[str, str]
    """Where a handshake failed, and why."""
    connections: list[int] = field(default_factory=list)
    """Ports from which the API server has connections to the Service, or had a minute ago."""

    @property
    def whole(self) -> bool:
        """Whether two replicas serve the stored CA's pair, and are trusted by every entry."""
        trusted = bool(self.bundles) and all(self.ca in each for each in self.bundles)
        same = len(self.served) == 3 and set(self.served.values()) == {self.leaf}
        return self.related and trusted and same


class Watch:
    """The samples of a process inside the node, as they come."""

    def __init__(self, log: Path) -> None:
        self._log = log.open()
        self._samples: list[Sample] = []

    def samples(self) -> list[Sample]:
        """Return those until now, or until the end."""
        if not self._log.closed:
            self._samples += [Sample(**json.loads(line)) for line in self._log]
        return self._samples

    def close(self) -> None:
        """Read no more."""
        self._log.close()


@contextmanager
def watched(node: Node) -> Iterator[Watch]:
    """Take samples while the block runs."""
    name = f"served-{next(_numbers)}"
    program = [sys.executable, "-m", "tests.cluster.served", str(node.sandbox.folder)]
    node.processes.start(name, ["env", f"--chdir={ROOT}", *program])
    watch = Watch(node.processes.log(name))
    try:
        node.processes.wait("the first sample", lambda: bool(watch.samples()), timeout=20)
        yield watch
    finally:
        node.processes.stop(name)
        watch.samples()
        watch.close()


def reigns(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the stored serving certificates in their order, and when each was first seen."""
    seen: dict[str, float] = {}
    for sample in samples:
        if sample.leaf:
            seen.setdefault(sample.leaf, sample.at)
    return seen


def arrivals(samples: Iterable[Sample]) -> dict[str, dict[str, float]]:
    """Return when each pod first served each certificate, by certificate and pod."""
    seen: dict[str, dict[str, float]] = {}
    for sample in samples:
        for place, leaf in sample.served.items():
            if place != SERVICE:
                seen.setdefault(leaf, {}).setdefault(place, sample.at)
    return seen


def bundle_faults(samples: Iterable[Sample], late: float) -> list[str]:
    """Say where a CA was missing before its end, or still there more than `late` seconds after."""
    ends: dict[str, float] = {}
    faults = []
    for sample in samples:
        for each in sample.bundles:
            ends |= each
        for ca, end in ends.items():
            there = [ca in each for each in sample.bundles] or [False]
            if sample.at < end and not all(there):
                faults.append(f"{ca} was missing {end - sample.at:.1f} s before its end")
            if sample.at > end + late and any(there):
                faults.append(f"{ca} was there {sample.at - end:.1f} s after its end")
    return faults


def look(api: Api, own: set[int]) -> Sample:
    """Take a sample; `own` collects the ports of our own handshakes."""
    at, here = time.time(), f"/api/v1/namespaces/{names.NAMESPACE}"
    ca, leaf = (_stored(api, name) for name in (names.SECRET_CA, names.SECRET_SERVING))
    bundles = _bundles(api)
    address = api.get(f"{here}/services/{names.SERVICE}")["spec"]["clusterIP"]
    places = {SERVICE: (address, PORT)} | {
        pod["metadata"]["name"]: (pod["status"]["podIP"], POD_PORT)
        for pod in api.get(f"{here}/{PODS}")["items"]
        if "podIP" in pod["status"] and "deletionTimestamp" not in pod["metadata"]
    }
    context, served, faults = _trusting(bundles), {}, {}
    for place, target in places.items():
        try:
            served[place] = _shake_hands(target, context, own)
        except OSError as fault:  # ssl.SSLError is one
            faults[place] = str(fault)
    ends = [{_serial(each): each.not_valid_after_utc.timestamp() for each in b} for b in bundles]
    connections = sorted(_ports(address, PORT) - own)
    related = _signed(ca, leaf)
    return Sample(at, _serial(ca), _serial(leaf), related, ends, served, faults, connections)


def _stored(api: Api, name: str) -> x509.Certificate | None:
    """Return the certificate of a Secret; None where it cannot be read, or has no key."""
    try:
        data = api.get(f"/api/v1/namespaces/{names.NAMESPACE}/secrets/{name}")["data"]
        certificate = x509.load_pem_x509_certificate(base64.b64decode(data[names.TLS_CERTIFICATE]))
    except (ApiError, ValueError, KeyError):
        return None
    return certificate if data.get(names.TLS_KEY) else None


def _signed(ca: x509.Certificate | None, leaf: x509.Certificate | None) -> bool:
    if ca is None or leaf is None:
        return False
    try:
        leaf.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _bundles(api: Api) -> list[list[x509.Certificate]]:
    """Return the different bundles of the entries; none where there is no configuration."""
    entries: list[Json] = []
    with suppress(ApiError):
        entries = api.read(CONFIGURATION)["webhooks"]
    texts = dict.fromkeys(each["clientConfig"].get("caBundle", "") for each in entries)
    pems = (base64.b64decode(text) for text in texts)
    return [x509.load_pem_x509_certificates(pem) if pem else [] for pem in pems]


def _trusting(bundles: list[list[x509.Certificate]]) -> ssl.SSLContext:
    """Return a strict client's context that trusts what every entry trusts, and nobody else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    for certificate in set(bundles[0] if bundles else []).intersection(*bundles):
        context.load_verify_locations(cadata=certificate.public_bytes(Encoding.PEM).decode())
    return context


def _shake_hands(target: tuple[str, int], context: ssl.SSLContext, own: set[int]) -> str:
    """Return the serial number of what is served there. Raises OSError."""
    with socket.create_connection(target, PATIENCE) as plain:
        own.add(plain.getsockname()[1])
        with context.wrap_socket(plain, server_hostname=CALLED) as link:
            served = link.getpeercert(binary_form=True)
    assert served
    return _serial(x509.load_der_x509_certificate(served))


def _ports(address: str, port: int) -> set[int]:
    """Return the local ports of this network's connections to a place, also of those just ended."""
    there = f"{int.from_bytes(socket.inet_aton(address), 'little'):08X}:{port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(fields[1].partition(":")[2], 16) for fields in lines if fields[2] == there}


def _serial(certificate: x509.Certificate | None) -> str:
    return f"{certificate.serial_number:x}" if certificate else ""


def main() -> None:
    """Print a sample in every period, as a line of JSON."""
    api, own = connect(Path(sys.argv[1]), URL), set[int]()
    while True:
        began = time.monotonic()
        print(json.dumps(asdict(look(api, own))), flush=True)  # noqa: T201 - its only output
        time.sleep(max(0.0, PERIOD - (time.monotonic() - began)))


if __name__ == "__main__":
    main()
