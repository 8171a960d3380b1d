"""The page's tables, in Markdown between markers, and the picture beside it."""

from collections.abc import Callable
from pathlib import Path

from bench.placement import picture
from bench.placement.experiments import Results, Table, pictured, tables
from bench.placement.scenario import Scenario

PAGE = Path("docs/explanation/placement.md")
PICTURE = PAGE.with_suffix(".svg")


def scenarios() -> set[Scenario]:
    """Return all that the page needs."""
    shown = [row for table in tables() for row in table.rows.values()]
    drawn = [line for panel in pictured().values() for line in panel.values()]
    return {scenario for group in shown + drawn for scenario in group if scenario.modelled}


def write(results: Results) -> None:
    """Write the tables into the page, and the picture."""
    text = PAGE.read_text()
    for table in tables():
        for measure, cell in MEASURES.items():
            text = _insert(text, f"{table.name}: {measure}", markdown(table, results, cell))
    PAGE.write_text(text)
    PICTURE.write_text(picture.draw(pictured(), results))


def _insert(text: str, name: str, table: str) -> str:
    """Put a table between its markers; a page that has no such place does without it."""
    begin, end = f"<!-- {name} -->\n", "<!-- end -->"
    before, found, rest = text.partition(begin)
    if not found:
        return text
    return f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"


def markdown(table: Table, results: Results, cell: "Cell") -> str:
    """Return a table."""
    lines = [[table.corner, *table.columns], ["---", *["---:"] * len(table.columns)]]
    for name, row in table.rows.items():
        lines.append([name, *(cell(results, one) if one.modelled else "-" for one in row)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def refused(results: Results, scenario: Scenario) -> str:
    """Pods refused at least once, per thousand, with the standard deviation over the seeds."""
    return _plus_minus(
        results.mean(scenario, lambda result: result.refused),
        results.spread(scenario, lambda result: result.refused),
    )


def failed(results: Results, scenario: Scenario) -> str:
    """Failed pods in all, per thousand, with the standard deviation over the seeds."""
    return _plus_minus(
        results.mean(scenario, lambda result: result.failed),
        results.spread(scenario, lambda result: result.failed),
    )


def stranded(results: Results, scenario: Scenario) -> str:
    """Percent of all slots."""
    return f"{results.mean(scenario, lambda result: result.stranded):.1f}"


def wait(results: Results, scenario: Scenario) -> str:
    """Mean and 99th percentile, seconds."""
    mean = results.mean(scenario, lambda result: result.wait)
    p99 = results.mean(scenario, lambda result: result.wait_p99)
    return f"{_number(mean)} / {_number(p99)}"


Cell = Callable[[Results, Scenario], str]
MEASURES = {"refused": refused, "failed": failed, "stranded": stranded, "wait": wait}


def _plus_minus(mean: float, spread: float) -> str:
    return f"{_number(mean)} ± {_number(spread)}" if mean else "0"


def _number(value: float) -> str:
    """Two digits that count, thousands apart."""
    if value >= 100:
        return f"{round(value, 2 - len(str(int(value)))):,.0f}"
    return f"{value:.1f}" if 0.05 <= value < 9.95 else f"{value:.0f}"
