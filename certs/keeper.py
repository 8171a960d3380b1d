"""Read, plan, act, until nothing is left to do; and again, a little later."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

import structlog

from certs import issue
from certs.cluster import Cluster, Conflict, Unavailable
from certs.config import Config
from certs.plan import SERVED_AS, Decision, IssueLeaf, Keep, MakeCa, SetBundles, Wait, plan
from vgpu import names

STEPS = 10
"""Most steps of one turn; three are enough, but others may be at it too."""
FIRST_PAUSE = 1.0
"""Seconds until the next turn when something is missing; doubled until it is the interval."""

_utc = partial(datetime.now, UTC)


def run(cluster: Cluster, config: Config, stop: threading.Event) -> None:
    """Keep the certificates good until told to stop. A turn logs what the last one did not."""
    log = structlog.get_logger()
    interval, pause, said = config.interval.total_seconds(), FIRST_PAUSE, set[str]()
    while True:
        decision: Decision
        before, said = said, set()
        for decision in settle(cluster, config):
            if decision.reason not in before | said:
                level = log.warning if isinstance(decision, Wait) else log.info
                level("decided", decision=type(decision).__name__, reason=decision.reason)
            said.add(decision.reason)
        well = isinstance(decision, Keep)
        if stop.wait(interval if well else min(pause, interval)):
            return
        pause = FIRST_PAUSE if well else 2 * pause


def settle(
    cluster: Cluster, config: Config, now: Callable[[], datetime] = _utc
) -> Iterator[Decision]:
    """Take steps and yield each before it is taken; the last is that to keep or to wait."""
    try:
        for _ in range(STEPS):
            decision = plan(cluster.held(), now(), config)
            yield decision
            if isinstance(decision, Keep | Wait):
                return
            with suppress(Conflict):  # a replica did it, or the cluster changed: read again
                _take(decision, cluster, config, now())
        yield Wait("others keep changing what was just read")
    except Unavailable as fault:
        yield Wait(str(fault))


def _take(step: Decision, cluster: Cluster, config: Config, now: datetime) -> None:
    match step:
        case MakeCa(over=over):
            cluster.store(names.SECRET_CA, issue.ca(issue.fresh(now), config.ca_life), over)
        case SetBundles(entries=entries, over=over):
            cluster.set_bundles(entries, over)
        case IssueLeaf(ca=ca, over=over):
            pair = issue.leaf(issue.fresh(now), config.leaf_life, ca, SERVED_AS)
            cluster.store(names.SECRET_SERVING, pair, over)
