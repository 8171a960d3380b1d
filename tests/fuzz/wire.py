"""Reviews before the HTTP application: what is no review is refused, and nothing is a bug."""

import json
from collections import Counter
from random import Random

from structlog.testing import capture_logs

from tests.fuzz.reviews import CONFIGS, Case
from webhook.admission import BadReview, answer
from webhook.app import create_app
from webhook.metrics import Metrics


class Wire:
    """The applications of all settings, and what they answered."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.faults: list[str] = []
        self._clients = [create_app(config, Metrics()).test_client() for config in CONFIGS]

    def send(self, one: Case, rng: Random) -> None:
        """Send a review as it is, and damaged."""
        sent = one.text.encode()
        wanted: tuple[int, object]
        try:
            wanted = 200, json.loads(json.dumps(answer(json.loads(sent), one.config).body))
        except (BadReview, RecursionError):
            wanted = 400, None
        got = self._answer(one, sent)
        if got != wanted:
            self.faults.append(f"{got} is not {wanted}: {one.text}")
        damaged = _damaged(rng, sent)
        if self._answer(one, damaged)[0] not in (200, 400):
            self.faults.append(f"a damaged review is a bug: {damaged!r}")

    def _answer(self, one: Case, body: bytes) -> tuple[int, object]:
        client = self._clients[CONFIGS.index(one.config)]
        with capture_logs():
            response = client.post("/mutate", data=body, content_type="application/json")
        self.statuses[str(response.status_code)] += 1
        return response.status_code, response.json if response.status_code == 200 else None


def _damaged(rng: Random, body: bytes) -> bytes:
    """Cut a body, or put something into it."""
    start = rng.randrange(len(body))
    end = start + rng.choice([0, 0, 1, 2, len(body)])
    put = [
        b"",
        b"\xff",
        b"\x00",
        b"NaN",
        b"-",
        b"1e999",
        b"{",
        b"]",
        b'"',
        b"[" * 100_000,
        b"9" * 5000,
    ]
    return body[:start] + rng.choice(put) + body[end:]
