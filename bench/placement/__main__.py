"""Simulates clusters under each policy, and writes the page on placement anew.

--quick: one small cluster, two seeds, on the terminal; the page is left alone.
"""

import argparse
import time

from bench.placement import page
from bench.placement.experiments import EVERYBODY, Results, Table
from bench.placement.scenario import Scenario

SEEDS = 5
QUICK_SEEDS = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.placement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="under 20 seconds")
    if parser.parse_args().quick:
        quick()
        return
    begin = time.monotonic()
    results = Results(SEEDS)
    results.run(page.scenarios())
    page.write(results)
    print(f"{page.PAGE} and {page.PICTURE}: {time.monotonic() - begin:.0f} s")


def quick() -> None:
    """Print refused pods per thousand on 10 nodes of 4 cards."""
    loads = (0.5, 0.7, 0.85)
    table = Table(
        "quick",
        "refused at least once, per thousand",
        tuple(f"{load:.0%}" for load in loads),
        {
            policy.name: tuple(Scenario(policy, nodes=10, load=load, pods=500) for load in loads)
            for policy in EVERYBODY
        },
    )
    results = Results(QUICK_SEEDS)
    results.run({scenario for row in table.rows.values() for scenario in row})
    print(page.markdown(table, results, page.refused))


if __name__ == "__main__":
    main()
