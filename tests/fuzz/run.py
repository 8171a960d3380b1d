"""Many reviews, and what came of them."""

import json
import resource
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fuzz.reviews import Case, case
from tests.fuzz.trial import Decide, Trial, stored, tried
from webhook.admission import answer


@dataclass(frozen=True)
class Disagreement:
    """A review whose answer is not what the oracle wants."""

    seed: int
    index: int
    case: Case
    trial: Trial

    def __str__(self) -> str:
        """Return it as JSON, with the command that shows it again."""
        return json.dumps(
            {
                "again": f"python -m tests.fuzz --seed {self.seed} --only {self.index}",
                "complaints": self.trial.complaints,
                "settings": str(self.case.config),
                "review": json.loads(self.case.text),
            }
        )


@dataclass
class Tally:
    """What came of the reviews so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    judged: Counter[str] = field(default_factory=Counter)
    silences: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int, int] = (0.0, 0, 0)
    """Seconds, the least of three tries; characters of the review; and its index."""
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, index: int, one: Case, trial: Trial) -> None:
        """Count one review."""
        self.outcomes[trial.outcome] += 1
        self.kinds[f"{one.kind} {one.operation}"] += 1
        sort = "hostile" if one.hostile else "regular"
        self.judged[f"{sort}, {'judged' if trial.judged else 'no opinion'}"] += 1
        if trial.why_silent and not one.hostile:
            self.silences[trial.why_silent] += 1
        self.slowest = max(self.slowest, (trial.seconds, len(one.text), index))


def run(seed: int, indices: range, decide: Decide = answer) -> Iterator[tuple[Case, Tally]]:
    """Try a seed's reviews, and yield each with the same tally after it."""
    tally = Tally()
    for index in indices:
        one = case(seed, index, stored)
        trial = tried(one, decide)
        if trial.seconds > tally.slowest[0]:  # on a busy machine a single time says little
            trial.seconds = min(trial.seconds, *(tried(one, decide).seconds for _ in range(2)))
        tally.add(index, one, trial)
        if trial.complaints:
            tally.disagreements.append(Disagreement(seed, index, one, trial))
        yield one, tally


def peak_memory() -> int:
    """Return the most memory that this process had so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
