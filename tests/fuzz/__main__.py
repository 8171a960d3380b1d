"""The fuzzer: `python -m tests.fuzz --reviews 100000`; exits 1 on any disagreement."""

import argparse
import json
import sys
import time
from collections import Counter
from random import Random, SystemRandom

from tests.cluster.tools.say import say
from tests.fuzz.run import Tally, peak_memory, run
from tests.fuzz.wire import Wire

EVERY = 20
"""Of so many reviews one goes through the HTTP application, too."""


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser("tests.fuzz", description=__doc__)
    parser.add_argument("--reviews", type=int, default=100_000, help="how many to try")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**9))
    parser.add_argument("--only", type=int, help="the index of a single review, to see it again")
    given = parser.parse_args()
    single = given.only is not None
    indices = range(given.only, given.only + 1) if single else range(given.reviews)
    say(f"seed {given.seed}, {len(indices)} reviews")
    start, wire, tally = time.monotonic(), Wire(), Tally()
    for one, tally in run(given.seed, indices):
        done = tally.outcomes.total()
        if single or done % EVERY == 0:
            wire.send(one, Random(done))  # noqa: S311 - nothing secret
        if done % 5000 == 0:
            say(f"{done} in {time.monotonic() - start:.0f} s")
    _report(tally, wire, time.monotonic() - start)
    return 1 if tally.disagreements or wire.faults else 0


def _report(tally: Tally, wire: Wire, seconds: float) -> None:
    for disagreement in tally.disagreements:
        say(str(disagreement))
    for fault in wire.faults:
        say(fault)
    _table("outcomes", tally.outcomes)
    _table("opinions", tally.judged)
    _table("kinds", tally.kinds)
    _table("why the oracle had no opinion on a regular one", tally.silences)
    _table("HTTP status", wire.statuses)
    longest, size, index = tally.slowest
    say(f"slowest answer: {longest * 1000:.1f} ms for {size} characters (--only {index})")
    say(f"peak memory, the oracle's and the generator's included: {peak_memory()} MiB")
    say(f"{tally.outcomes.total()} reviews in {seconds:.0f} s")
    say(json.dumps({"disagreements": len(tally.disagreements), "HTTP faults": len(wire.faults)}))


def _table(title: str, counts: Counter[str]) -> None:
    say(f"{title}:")
    for name, number in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        say(f"{number:9} {name}")


if __name__ == "__main__":
    sys.exit(main())
