"""What others do to the certificates, and certs mends: a real API server calls by them."""

import base64
import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kubernetes
import pytest

import certs.keeper
from certs import issue
from certs.cluster import Cluster
from certs.config import TRUST_DELAY, Config
from certs.model import KeyPair
from certs.plan import SERVED_AS, Keep, Wait, plan
from milligpu.processes import Program
from tests.cluster.api import ApiError, Json
from tests.cluster.controlplane import ControlPlane, control_plane
from tests.cluster.eventually import eventually
from tests.cluster.keeper import keeper, kubeconfig
from tests.cluster.processes import WITH_US
from tests.cluster.tools.say import say
from tests.cluster.trust import Service, service
from tests.cluster.webhooks import SHIPPED
from tests.documents import ROOT, blocks
from vgpu import names

pytestmark = [pytest.mark.apiserver, pytest.mark.long]

CONFIG = Config()
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
SECRETS = (names.SECRET_CA, names.SECRET_SERVING)
PATH = f"/api/v1/namespaces/{names.NAMESPACE}/secrets"
STEPS = ("MakeCa", "SetBundles", "IssueLeaf")
PAGE = ROOT / "docs/how-to/certificates.md"
MERGE = "application/merge-patch+json"
Fault = Callable[[Service], object]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """An API server with all that is shipped, that calls a server of ours as the Service."""
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane())
        plane.kubectl("apply", "-f", str(SHIPPED))
        plane.kubectl("delete", "service", names.SERVICE, "-n", names.NAMESPACE)
        yield stack.enter_context(service(plane, tmp_path_factory.mktemp("tls")))


@pytest.fixture(scope="module")
def cluster(serving: Service) -> Cluster:
    """The cluster as certs sees it, with the rights that it is shipped with."""
    kubernetes.config.load_kube_config(str(kubeconfig(serving.plane)))  # type: ignore[no-untyped-call]
    return Cluster()


@pytest.fixture
def fresh(serving: Service) -> Service:
    """The same, as it is before certs was there."""
    serving.plane.kubectl("delete", "secret", "--all", "-n", names.NAMESPACE)
    apply_again(serving)
    return serving


def settle(cluster: Cluster, shift: timedelta = timedelta(0)) -> list[str]:
    """Do one turn of certs, by a clock that is off; return the kinds of its decisions."""
    turn = certs.keeper.settle(cluster, CONFIG, lambda: datetime.now(UTC) + shift)
    return [type(each).__name__ for each in turn]


def works(serving: Service, seconds: float = 10) -> None:
    """Wait until the API server trusts the webhook."""
    says(serving, "", seconds)


def says(serving: Service, what: str, seconds: float = 10) -> None:
    """Wait until the API server says so of the webhook; of nothing it has nothing to say."""

    def look() -> bool:
        said = serving.call()
        assert what in said if what else not said, said
        return True

    eventually(look, f"the API server to say {what!r}", seconds)


def text(content: bytes) -> str:
    return base64.b64encode(content).decode()


# Faults


def pair(life: timedelta = DAY, age: timedelta = timedelta(0)) -> KeyPair:
    return issue.ca(issue.fresh(datetime.now(UTC) - age), life)


STRANGER = pair()


def leaf(
    serving: Service, names_: tuple[str, ...] = SERVED_AS, age: timedelta = timedelta(0)
) -> KeyPair:
    """Sign a leaf with the CA that is there, which certs itself would not."""
    ca = serving.secret(names.SECRET_CA)
    assert ca
    return issue.leaf(issue.fresh(datetime.now(UTC) - age), DAY, ca, names_)


def write(name: str, **data: bytes | None) -> Fault:
    """Put something under keys of a Secret: `crt` and `key`; None takes the key away."""

    def fault(serving: Service) -> None:
        change = {f"tls.{key}": None if to is None else text(to) for key, to in data.items()}
        serving.plane.api.request("PATCH", f"{PATH}/{name}", {"data": change}, MERGE)

    return fault


def delete(*secrets: str) -> Fault:
    def fault(serving: Service) -> None:
        for name in secrets:
            serving.plane.api.request("DELETE", f"{PATH}/{name}")

    return fault


def replace(name: str, made: Callable[[Service], dict[str, bytes]], kind: str = "Opaque") -> Fault:
    """Put another Secret there, perhaps of another type."""

    def fault(serving: Service) -> None:
        data = {key: text(content) for key, content in made(serving).items()}
        delete(name)(serving)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        serving.plane.api.create(secret | {"type": kind, "data": data}, names.NAMESPACE)

    return fault


def sign(**how: object) -> Fault:
    """Put another leaf of our own CA there."""

    def fault(serving: Service) -> None:
        made = leaf(serving, **how)  # type: ignore[arg-type]
        write(names.SECRET_SERVING, crt=made.certificate, key=made.key)(serving)

    return fault


def bundle(content: bytes | None) -> Fault:
    """Give all entries another caBundle, as an administrator does."""

    def fault(serving: Service) -> None:
        stored = serving.plane.api.read(serving.configuration())
        for entry in stored["webhooks"]:
            entry["clientConfig"]["caBundle"] = None if content is None else text(content)
        serving.plane.api.update(stored)

    return fault


def synced(*contents: bytes | None) -> Fault:
    """Have a GitOps tool apply its manifest, with one caBundle or without, after another."""

    def fault(serving: Service) -> None:
        for content in contents:
            config = serving.configuration()
            for entry in config["webhooks"] if content is not None else ():
                entry["clientConfig"]["caBundle"] = text(content or b"")
            how = ("--server-side", "--force-conflicts", "--field-manager=gitops")
            serving.plane.kubectl("apply", *how, "-f", "-", stdin=json.dumps(config))

    return fault


def entries(change: Callable[[list[Json]], object]) -> Fault:
    def fault(serving: Service) -> None:
        stored = serving.plane.api.read(serving.configuration())
        change(stored["webhooks"])
        serving.plane.api.update(stored)

    return fault


def add(entries: list[Json]) -> None:
    client = {key: to for key, to in entries[0]["clientConfig"].items() if key != "caBundle"}
    entries.append(entries[0] | {"name": "more.milligpu.io", "clientConfig": client})


def rename(entries: list[Json]) -> None:
    entries[0]["name"] = "renamed.milligpu.io"
    del entries[0]["clientConfig"]["caBundle"]


def apply_again(serving: Service) -> None:
    serving.plane.api.delete(serving.configuration())
    serving.plane.api.create(serving.configuration())


def gone_and_back(serving: Service) -> None:
    entries(lambda found: found.pop(0))(serving)
    stored = serving.plane.api.read(serving.configuration())
    stored["webhooks"].insert(0, serving.configuration()["webhooks"][0])
    serving.plane.api.update(stored)


def both(kind: str, made: Callable[[str], Fault]) -> dict[str, Fault]:
    return {f"{name}: {kind}": made(name) for name in SECRETS}


FAULTS: dict[str, Fault] = {
    "caBundle: applied by a tool that owns it, without it": synced(STRANGER.certificate, None),
    "caBundle: applied by a tool that owns it, with another": synced(STRANGER.certificate),
    "caBundle: applied by a tool as empty": synced(b""),
    "caBundle: gone": bundle(None),
    "caBundle: emptied": bundle(b""),
    "caBundle: no certificate": bundle(b"rubbish"),
    "caBundle: a broken certificate": bundle(
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    ),
    "caBundle: another CA": bundle(STRANGER.certificate),
    "caBundle: an ended CA": bundle(pair(DAY, 9 * DAY).certificate),
    "caBundle: a private key": bundle(STRANGER.key),
    **both("deleted", delete),
    **both("an empty certificate", lambda name: write(name, crt=b"")),
    **both("an empty key", lambda name: write(name, key=b"")),
    **both("a certificate that is none", lambda name: write(name, crt=b"rubbish")),
    **both("a key that is none", lambda name: write(name, key=b"\xff\x00")),
    **both("another's key", lambda name: write(name, key=STRANGER.key)),
    **both(
        "another CA's",
        lambda name: write(name, crt=STRANGER.certificate, key=STRANGER.key),
    ),
    **both("another type, without anything", lambda name: replace(name, lambda _: {})),
    **both(
        "another type, half of it",
        lambda name: replace(name, lambda _: {"tls.crt": STRANGER.certificate}),
    ),
    **both(
        "another type, and rubbish",
        lambda name: replace(name, lambda _: {"tls.crt": b"a", "tls.key": b"b", "more": b"c"}),
    ),
    "both Secrets deleted": delete(*SECRETS),
    "milligpu-tls: for other names": sign(names_=("elsewhere.svc",)),
    "milligpu-tls: for one of the names": sign(names_=SERVED_AS[:1]),
    "milligpu-tls: ended": sign(age=2 * DAY),
    "configuration: deleted and applied again": apply_again,
    "configuration: an entry gone and back": gone_and_back,
    "configuration: an entry renamed": entries(rename),
    "configuration: an entry added": entries(add),
}


@dataclass
class Awake:
    """Lets a program run while the block lasts."""

    program: Program

    def __enter__(self) -> None:
        self.program.process.send_signal(signal.SIGCONT)

    def __exit__(self, *_: object) -> None:
        self.program.process.send_signal(signal.SIGSTOP)


@pytest.fixture(scope="module")
def awake(serving: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Awake]:
    """One certs for all of the faults, which looks every second, but only in the block."""
    log = tmp_path_factory.mktemp("certs") / "log"
    with keeper(serving.plane, log, interval="1s") as program:
        program.wait_until(lambda: bool(program.lines()))
        program.process.send_signal(signal.SIGSTOP)
        yield Awake(program)
        program.process.send_signal(signal.SIGCONT)


UNREADABLE = "unable to load root certificates"
UNKNOWN = "x509: certificate signed by unknown authority"
HARM = {
    **dict.fromkeys((case for case in FAULTS if case.startswith(("caB", "conf"))), UNKNOWN),
    "caBundle: no certificate": f"{UNREADABLE}: unable to parse bytes as PEM block",
    "caBundle: a broken certificate": f"{UNREADABLE}: failed to parse certificate",
    "caBundle: a private key": f"{UNREADABLE}: no valid certificate authority data seen",
    "milligpu-tls: another CA's": "x509: certificate is not valid for any names",
    "milligpu-tls: for other names": f"certificate is valid for elsewhere.svc, not {SERVED_AS[0]}",
    "milligpu-tls: ended": "x509: certificate has expired or is not yet valid: current time",
}
"""What the API server says meanwhile; what cannot be served harms nobody yet."""


@pytest.mark.parametrize("said", sorted(set(HARM.values())))
def test_the_page_has_what_the_api_server_says(said: str) -> None:
    assert all(part in PAGE.read_text() for part in said.split(" elsewhere.svc"))


def test_what_the_page_tells_to_type_works(serving: Service, awake: Awake, tmp_path: Path) -> None:
    plane = serving.plane
    apply_again(serving)
    (tmp_path / "kubectl").symlink_to(plane.kubectl_path)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(tmp_path),
    }
    # Those about pods are for clusters that have nodes.
    typed = [each for each in blocks(PAGE.read_text(), "sh") if "deployment/" not in each]
    answers = []
    with awake:
        for commands in typed:
            works(serving, 30)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands],
                env=environ,
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (commands, done.stderr)
            answers.append(done.stdout)
        works(serving, 30)
    assert len(typed) == 6
    assert "DNS:webhook.milligpu.svc," in answers[0]
    assert answers[1].endswith(": OK\n")
    assert answers[2] == "pod/is-it-trusted created (server dry run)\n"
    assert answers[5].endswith("replaced\n")


@pytest.mark.parametrize("case", FAULTS)
def test_what_others_do_is_mended(
    serving: Service, cluster: Cluster, awake: Awake, case: str
) -> None:
    if not case.startswith("milligpu-"):
        apply_again(serving)  # so that nobody owns what an earlier tool did
    with awake:
        works(serving, 30)
    FAULTS[case](serving)
    assert not isinstance(plan(cluster.held(), datetime.now(UTC), CONFIG), Keep)
    says(serving, HARM.get(case, ""))
    begin = time.monotonic()

    def mended() -> bool:
        decision = plan(cluster.held(), datetime.now(UTC), CONFIG)
        assert isinstance(decision, Keep), decision.reason
        return serving.call() == ""

    with awake:
        eventually(mended, "all to be as it ought to be", 15)
    say(f"{case}: {time.monotonic() - begin:.1f} s")


@pytest.mark.parametrize("curve", ["P-256", "P-384", "P-521"])
def test_a_ca_of_your_own_is_used(
    fresh: Service, cluster: Cluster, tmp_path: Path, curve: str
) -> None:
    """As the page makes one: OpenSSL leaves open what the CA's key is for."""
    settle(cluster)
    (command,) = re.findall(r"`(openssl req [^`]+)`", PAGE.read_text())
    assert command.count("P-256") == 1
    made = command.replace("P-256", curve)
    subprocess.run(["bash", "-euc", made], cwd=tmp_path, check=True, capture_output=True)
    files = (tmp_path / name for name in (names.TLS_CERTIFICATE, names.TLS_KEY))
    own = KeyPair(*(file.read_bytes() for file in files))
    write(names.SECRET_CA, crt=own.certificate, key=own.key)(fresh)
    assert settle(cluster)[0] == "SetBundles"
    eventually(lambda: settle(cluster) == ["Keep"], "a pair of the new CA", 15)
    assert fresh.secret(names.SECRET_CA) == own
    works(fresh)


def test_what_is_not_base64_does_not_get_in(serving: Service) -> None:
    stored = serving.plane.api.read(serving.configuration())
    stored["webhooks"][0]["clientConfig"]["caBundle"] = "-----BEGIN CERTIFICATE-----"
    with pytest.raises(ApiError, match=r"^400: .*illegal base64 data"):
        serving.plane.api.update(stored)


def test_with_the_settings_that_are_shipped_it_takes_less_than_a_minute(
    fresh: Service, tmp_path: Path
) -> None:
    with keeper(fresh.plane, tmp_path / "log"):
        works(fresh, 30)
        for case in ("caBundle: emptied", "milligpu-tls: for other names"):
            FAULTS[case](fresh)
            says(fresh, HARM[case])
            begin = time.monotonic()
            works(fresh, 30)
            say(f"{case}: {time.monotonic() - begin:.1f} s")


def test_a_secret_that_may_not_be_changed_is_complained_about(
    fresh: Service, cluster: Cluster
) -> None:
    assert settle(cluster)[-1] == "Keep"
    change = {"immutable": True, "data": {"tls.crt": ""}}
    fresh.plane.api.request("PATCH", f"{PATH}/{names.SECRET_SERVING}", change, MERGE)
    last = list(certs.keeper.settle(cluster, CONFIG))[-1]
    assert isinstance(last, Wait)
    assert (
        f'Secret "{names.SECRET_SERVING}" is invalid: data: Forbidden: field is imm' in last.reason
    )
    delete(names.SECRET_SERVING)(fresh)
    assert settle(cluster) == ["IssueLeaf", "Keep"]
    works(fresh)


# Time

DOWN = {
    "two thirds of the leaf's life": (70 * DAY, ["IssueLeaf"], ""),
    "the leaf's life": (100 * DAY, ["IssueLeaf"], "x509: certificate has expired"),
    "two thirds of the CA's life": (800 * DAY, ["MakeCa", "SetBundles", "Wait"], "has expired"),
    "the CA's life": (1100 * DAY, ["MakeCa", "SetBundles", "IssueLeaf"], "has expired"),
}


@pytest.mark.parametrize("case", DOWN)
def test_certs_was_down_for_as_long_as(fresh: Service, cluster: Cluster, case: str) -> None:
    age, steps, said = DOWN[case]
    assert settle(cluster, -age)[-1] == "Keep"
    says(fresh, said)
    begin = time.monotonic()
    assert settle(cluster)[: len(steps)] == steps
    if steps[-1] == "Wait":
        time.sleep(TRUST_DELAY.total_seconds())
        assert settle(cluster) == ["IssueLeaf", "Keep"]
    works(fresh)
    assert settle(cluster) == ["Keep"]
    say(f"{case}: {time.monotonic() - begin:.1f} s")


@pytest.mark.parametrize("minutes", [-300, -50, -5, 5, 50])
def test_a_clock_that_is_off_harms_nobody(fresh: Service, cluster: Cluster, minutes: int) -> None:
    assert settle(cluster, minutes * MINUTE) == [*STEPS, "Keep"]
    works(fresh)
    # One with the right clock finds nothing to do, so two of them do not fight.
    assert settle(cluster) == ["Keep"]
    assert settle(cluster, minutes * MINUTE) == ["Keep"]


@pytest.mark.parametrize("minutes", [-50, -5, 5, 50])
def test_a_renewal_by_a_clock_that_is_off(fresh: Service, cluster: Cluster, minutes: int) -> None:
    settle(cluster, -800 * DAY)
    delete(names.SECRET_SERVING)(fresh)  # its life is over; that of the old CA is not
    assert settle(cluster, minutes * MINUTE) == [*STEPS, "Keep"]  # and nobody waits for minutes
    works(fresh)


def test_a_clock_more_than_an_hour_ahead_is_told_and_mended_by_the_right_one(
    fresh: Service, cluster: Cluster
) -> None:
    assert settle(cluster, 120 * MINUTE) == [*STEPS, "Keep"]
    says(fresh, "x509: certificate has expired or is not yet valid: current time")
    assert settle(cluster)[0] == "MakeCa"
    time.sleep(TRUST_DELAY.total_seconds())
    settle(cluster)
    works(fresh)


# Several at once


@contextmanager
def watching(plane: ControlPlane, folder: Path) -> Iterator[Callable[[], list[str]]]:
    """Give what reads which of our objects were written since, each time that one was."""
    kubectl = (str(plane.kubectl_path), "--kubeconfig", str(plane.kubeconfig), "get")
    how = ("--watch-only", "--output-watch-events", "--no-headers")
    what = (("secrets", "-n", names.NAMESPACE), ("mutatingwebhookconfigurations",))
    with ExitStack() as stack:
        logs = [folder / f"watched-{place[0]}" for place in what]
        for place, log in zip(what, logs, strict=True):
            sink = stack.enter_context(log.open("wb"))
            argv = [*WITH_US, *kubectl, *place, *how]
            watch = stack.enter_context(subprocess.Popen(argv, stdout=sink, stderr=sink))
            stack.callback(watch.terminate)

        def written() -> list[str]:
            lines = [line for log in logs for line in log.read_text().splitlines()]
            return [line for line in lines if not line.startswith("DELETED")]

        yield written


@pytest.mark.timeout(200)
def test_of_three_one_wins_and_none_writes_twice(fresh: Service, tmp_path: Path) -> None:
    """Beside what others write: a leaf, or a bundle, or all three things each time."""
    faults = {
        "milligpu-tls: deleted": 1,
        "caBundle: emptied": 1 + 1,
        "milligpu-ca: another's key": 1 + 3,
        "milligpu-tls: an empty key": 1 + 1,
        "both Secrets deleted": 3,
    }
    with ExitStack() as stack:
        for number in range(3):
            log = tmp_path / f"certs-{number}"
            stack.enter_context(keeper(fresh.plane, log, interval="1s"))
        works(fresh, 30)
        written = stack.enter_context(watching(fresh.plane, tmp_path))
        ask_whether_it_watches(fresh, written)
        for case, writes in 2 * [*faults.items()]:
            before = len(written())
            FAULTS[case](fresh)
            eventually(lambda: len(written()) >= before + writes, f"{case}: {writes} writes")  # noqa: B023
            time.sleep(2.5)  # each of them has looked twice
            assert len(written()) == before + writes, (case, written()[before:])
            works(fresh)
        say(f"{len(written())} writes")


def ask_whether_it_watches(serving: Service, written: Callable[[], list[str]]) -> None:
    """Change two labels until both watches have told of it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": names.SECRET_CA}}
    numbers = itertools.count()

    def look() -> bool:
        change = {"metadata": {"labels": {"number": str(next(numbers))}}}
        serving.plane.api.patch(secret, change, names.NAMESPACE)
        serving.plane.api.patch(serving.configuration(), change)
        told = {line.split()[1] for line in written()}
        return told >= {names.SECRET_CA, names.WEBHOOK_CONFIGURATION}

    eventually(look, "both watches to tell")
    time.sleep(1)
