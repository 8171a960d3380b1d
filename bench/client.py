"""Keep-alive HTTPS clients that send a review again and again and check every answer."""

import json
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from bench.floor import REVIEW
from bench.measured import Measured
from milligpu.processes import Webhook

WARM_UP = 50
"""Requests of each connection that do not count."""
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


def measure(
    servers: dict[str, Webhook], connections: int, rounds: int, each: int
) -> dict[str, Measured]:
    """Send `each` reviews per connection and round, to one server after the other in every round.

    Each connection has a process of its own, so that clients do not wait for one another's
    interpreter.
    """
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(connections), context.SimpleQueue()
    arguments = (servers, rounds, each, barrier, results)
    clients = [
        context.Process(target=_client, args=arguments, daemon=True) for _ in range(connections)
    ]
    for client in clients:
        client.start()
    turns: dict[str, list[list[Any]]] = {name: [[] for _ in range(rounds)] for name in servers}
    for _ in range(connections * rounds * len(servers)):
        result = results.get()
        if isinstance(result, Exception):
            raise result
        turn, name, *seen = result
        turns[name][turn].append(seen)
    for client in clients:
        client.join()
    return {name: _together(turns[name]) for name in servers}


def _together(turns: list[list[Any]]) -> Measured:
    seconds = [one for turn in turns for times, _, _ in turn for one in times]
    wall = sum(
        max(end for _, _, end in turn) - min(begin for _, begin, _ in turn) for turn in turns
    )
    return Measured(seconds, wall)


def _client(
    servers: dict[str, Webhook], rounds: int, each: int, barrier: Any, results: Any
) -> None:
    try:
        sends = {name: _sender(server) for name, server in servers.items()}
        for send in sends.values():
            for _ in range(WARM_UP):
                send()
        for turn in range(rounds):
            for name, send in sends.items():
                barrier.wait()
                begin = time.monotonic()
                seconds = [send() for _ in range(each)]
                results.put((turn, name, seconds, begin, time.monotonic()))
    except Exception as fault:  # noqa: BLE001 - raised again in the parent
        results.put(fault)
        barrier.abort()


def _sender(server: Webhook) -> Callable[[], float]:
    """Return what sends one review, checks the answer, and returns the seconds it took."""
    review = json.loads(REVIEW.read_text())
    uid = review["request"]["uid"]
    body = json.dumps(review, separators=(",", ":"))
    connection = server.connect()
    connection.connect()

    def send() -> float:
        begin = time.perf_counter()
        connection.request("POST", "/mutate", body, _HEADERS)
        response = connection.getresponse()
        text = response.read()
        seconds = time.perf_counter() - begin
        answer = json.loads(text)["response"]
        good = answer["uid"] == uid and answer["allowed"] and answer["patchType"] == "JSONPatch"
        if response.status != 200 or response.will_close or not good:
            raise ValueError(f"a wrong answer: {response.status} {text[:200]!r}")
        return seconds

    return send
