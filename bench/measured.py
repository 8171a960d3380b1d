"""What was measured, and how it is printed: always beside the least that it could be."""

import statistics
from dataclasses import dataclass

HEADER = f"{'':34}{'median':>10}{'p99':>10}{'per second':>12}   of the floor's"


@dataclass(frozen=True)
class Measured:
    """Times of calls, in seconds, and of all of them together."""

    seconds: list[float]
    wall: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        return statistics.quantiles(self.seconds, n=100)[-1]

    @property
    def rate(self) -> float:
        return len(self.seconds) / self.wall

    def row(self, label: str, floor: "Measured") -> str:
        """One line of the table: milliseconds, calls a second, and all of them by the floor's."""
        times = f"{self.median * 1000:>7.3f} ms{self.p99 * 1000:>7.2f} ms{self.rate:>12.0f}"
        if self is floor:
            return f"  {label:32}{times}"
        multiples = f"{self.median / floor.median:.2f} x {self.p99 / floor.p99:.2f} x"
        return f"  {label:32}{times}   {multiples} {self.rate / floor.rate:.0%}"


def show(title: str, rows: dict[str, Measured]) -> None:
    """Print a table; its first row is the floor."""
    print(f"\n{title}\n{HEADER}")
    floor = next(iter(rows.values()))
    for label, measured in rows.items():
        print(measured.row(label, floor))
