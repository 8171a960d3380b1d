"""The table, row by row, in every kind, container, form and operation, before the handler."""

import itertools
from collections.abc import Iterator

import pytest

from tests.matrix.outcome import Case, check_denied, check_made, check_warnings
from tests.matrix.table import ROWS, Denied, Refused, Row, Share, Whole
from tests.unit.webhook.objects import (
    FORMS,
    TEMPLATES,
    Outcome,
    answered,
    copied,
    create,
    held,
    merged,
    named,
    review,
    update,
)
from webhook.config import Config
from webhook.pod import Json

pytestmark = pytest.mark.parametrize("row", ROWS, ids=[row.written for row in ROWS])


def cases(row: Row) -> Iterator[tuple[Case, str]]:
    """Yield the row in every kind, at every place, in both forms."""
    for kind, place, whole in itertools.product(row.kinds, row.places, row.settings):
        for form in FORMS:
            yield Case(row, kind, place, whole), form


def test_created(row: Row) -> None:
    for case, form in cases(row):
        obj = FORMS[form](case.manifest)
        outcome = create(obj, Config(whole_cards=case.whole))
        assert outcome.allowed == (not isinstance(case.expected, Denied)), (case, form, outcome)
        if outcome.allowed:
            check_made(case, FORMS["as sent"](outcome.object))
            check_warnings(case, outcome.warnings)
            check_rest(case, obj, outcome.object)
            check_copy(case, outcome, Config(whole_cards=case.whole))
        else:
            check_denied(case, outcome.message)


def check_rest(case: Case, before: Json, after: Json) -> None:
    """Check that in a template nothing but resources changes, and those only where it asks."""
    if case.kind in TEMPLATES:
        after = copied(after)
        for name in case.grants() or ["it"]:
            named(after, name)["resources"] = named(before, name).get("resources")
            if "resources" not in named(before, name):
                del named(after, name)["resources"]
        assert after == before


def check_copy(case: Case, made: Outcome, config: Config) -> None:
    """Check that what is stored can be created under another name: what is done is done (B17)."""
    notes = made.object["metadata"].get("annotations")
    copy = {**made.object, "metadata": {"name": "copy", "annotations": notes}, "status": {}}
    outcome = answered(review(copy), config)
    assert (outcome.allowed, outcome.patch) == (True, []), case
    assert set(outcome.warnings) <= set(made.warnings), case


def test_brought_by_an_update(row: Row) -> None:
    """To a workload as at its creation; a pod's share cannot change, and the rest of it either."""
    for case, form in cases(row):
        old, new = FORMS[form](case.plain), FORMS[form](case.manifest)
        outcome = update(new, old, Config(whole_cards=case.whole))
        if isinstance(case.expected, Denied):
            assert not outcome.allowed, (case, form)
            check_denied(case, outcome.message)
        elif case.kind == "Pod" and row.asks and isinstance(case.expected, Share | Whole):
            assert not outcome.allowed, (case, form)
            assert "a pod's share cannot change (it has none); delete the pod" in outcome.message
        elif case.kind == "Pod":  # a count that is declared is the API server's to refuse
            assert outcome.allowed, (case, form, outcome.message)
        else:
            assert outcome.allowed, (case, form, outcome.message)
            check_made(case, FORMS["as sent"](outcome.object))
            check_warnings(case, outcome.warnings)
            check_rest(case, new, outcome.object)


def test_applied_again_unchanged(row: Row) -> None:
    """What is stored stays; so does, from before we were there, what would be denied now."""
    for case, form in cases(row):
        config, manifest = Config(whole_cards=case.whole), case.manifest
        arrived = FORMS[form](manifest)
        if isinstance(case.expected, Denied):
            if isinstance(row.difference(case.kind), Refused):
                continue
            labelled = {**arrived, "metadata": {**arrived["metadata"], "labels": {"a": "b"}}}
            outcome = update(labelled, arrived, config)
            assert (outcome.allowed, outcome.patch, outcome.warnings) == (True, [], []), (
                case,
                form,
            )
            continue
        stored = create(arrived, config)
        outcome = update(FORMS[form](merged(stored.object, manifest)), stored.object, config)
        assert outcome.allowed, (case, form, outcome.message)
        assert held(outcome.object) == held(stored.object), (case, form)
        assert set(outcome.warnings) <= set(stored.warnings)
