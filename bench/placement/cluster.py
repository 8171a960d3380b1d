"""A cluster in simulated time.

What each part knows, and when:
- The scheduler knows at once what it bound and which pods ended. A node's allocatable it knows as
  the kubelet last wrote it: at the node's own beat, every 10 s.
- The kubelet admits a pod to slots that are free and healthy by the plugin's last list.
- The plugin learns from a call of the kubelet at once, and what was freed at its next poll.
- A controller replaces a failed pod at once.
"""

import heapq
import random
from collections.abc import Callable

from bench.placement.node import Node
from bench.placement.policies import CARD
from bench.placement.scenario import Pod, Result, Scenario, summary
from bench.placement.scheduler import Scheduler

STATUS_SECONDS = 10.0
"""How often a kubelet writes its node's status."""
POLL_SECONDS = 5.0
"""How often a plugin asks its kubelet who holds what."""
REMIND_SECONDS = 60.0
"""How often a plugin that hides slots looks whether it still has to."""
CYCLE_SECONDS = 1 / 30
"""From one replaced pod to the next, whatever their ReplicaSets: 1,800 a minute were seen, and by
default kube-controller-manager sends 20 requests a second, 30 in a burst."""
BACKOFF_SECONDS = 10.0, 600.0
"""A Job's first and last."""
RAMP_SECONDS = 600.0
"""The empty cluster is filled in so long."""
WARM_LIVES = 1.0
"""Mean lives of a pod before pods are looked at."""


class Cluster:
    """One run of a scenario; `run` gives its figures."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario, self.policy = scenario, scenario.policy
        self.traffic = random.Random(seed)  # noqa: S311 - the same pods for every policy
        self.rng = random.Random(-seed - 1)  # noqa: S311
        nodes = scenario.nodes
        self.nodes = [Node(scenario.cards, self.policy) for _ in range(nodes)]
        self.phases = [self.rng.uniform(0, STATUS_SECONDS) for _ in range(nodes)]
        self.scheduler = Scheduler(
            nodes, scenario.cards * CARD, CARD * self.policy.exact, scenario.scoring
        )
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self.number = 0
        self.coming: set[tuple[str, int]] = set()
        """Polls and statuses that are to come."""
        self.changed = False
        self.replaced = 0.0
        """When the controllers have made anew what failed until now."""
        self.hot: list[Pod] = []
        """Refused pods whose next tries end the same way until something changes."""
        self.begin = RAMP_SECONDS + WARM_LIVES * scenario.life
        self.end = self.begin + scenario.pods * scenario.interval
        self.pods: list[Pod] = []
        self.free, self.asked = scenario.slots, 0
        self.since = self.begin
        self.sums = [0.0, 0.0]

    def run(self) -> Result:
        """Simulate until all pods to look at have come, or the next would come."""
        self._fill()
        events = self.events
        while events[0][0] < self.end:
            self.now, _, call, args = heapq.heappop(events)
            call(*args)
            if self.changed:
                self.changed = False
                self._retry_hot()
        self.now = self.end
        self._tally()
        self._count(0, 0)
        stranded, used = (100 * each / (self.end - self.begin) for each in self.sums)
        return summary(self.pods, self.scenario.containers, self.end, stranded, used)

    def _at(self, time: float, call: Callable[..., None], *args: object) -> None:
        self.number += 1
        heapq.heappush(self.events, (time, self.number, call, args))

    # Pods come and go.

    def _fill(self) -> None:
        """Let as many pods come as run on average, none of which ends before all are there."""
        scenario = self.scenario
        for _ in range(round(scenario.life / scenario.interval / scenario.replicas)):
            time = self.traffic.uniform(0, RAMP_SECONDS)
            self._at(time, self._create, RAMP_SECONDS - time)
        self._at(RAMP_SECONDS, self._arrive)

    def _arrive(self) -> None:
        self._create()
        mean = self.scenario.interval * self.scenario.replicas
        self._at(self.now + self.traffic.expovariate(1 / mean), self._arrive)

    def _create(self, longer: float = 0.0) -> None:
        size = self.traffic.choice(self.scenario.mix)
        for _ in range(self.scenario.replicas):
            asks = size * self.scenario.containers
            life = longer + self.traffic.expovariate(1 / self.scenario.life)
            pod = Pod(size, asks, self.now, life)
            if self.now >= self.begin:
                self.pods.append(pod)
            self._count(0, asks)
            self._schedule(pod)

    def _finish(self, index: int, pod: Pod) -> None:
        self.nodes[index].release(pod.size, pod.parts)
        self._count(pod.asks, 0)
        self._bound(index, -pod.asks)
        if not self.policy.steady:
            self._soon("poll", index, POLL_SECONDS, self._poll)
        self._wake(index)

    # A pod is scheduled, and admitted or refused.

    def _schedule(self, pod: Pod) -> None:
        best = self.scheduler.best(pod.asks)
        if not best:
            self.scheduler.push(pod)
            self.changed = True  # for refused pods of its size: they wait now, too
            return
        index = self.rng.choice(best)
        pod.parts = self.nodes[index].admit(pod.size, self.scenario.containers, self.now, self.rng)
        if not self.policy.steady:
            self._refresh(index)
        if not pod.parts:
            self._refused(pod, best)
            return
        pod.started = self.now
        self._count(-pod.asks, -pod.asks)
        self._bound(index, pod.asks)
        self._at(self.now + pod.life, self._finish, index, pod)

    def _refused(self, pod: Pod, best: list[int]) -> None:
        pod.refusals += 1
        pod.since = self.now
        if self.scenario.backoff:
            first, last = BACKOFF_SECONDS
            wait = min(first * 2 ** min(pod.refusals - 1, 9), last)
            self._at(self.now + wait, self._schedule, pod)
        elif self._is_stuck(pod, best):
            self._tally()
            self.hot.append(pod)
        else:
            self._replace(pod)

    def _is_stuck(self, pod: Pod, best: list[int]) -> bool:
        """Whether the next try ends like this one, unless something changes."""
        if self.scheduler.samples:
            return False
        containers = self.scenario.containers
        return all(self.nodes[n].refuses_again(pod.size, containers, self.now) for n in best)

    def _replace(self, pod: Pod) -> None:
        """Let the controllers make the pod anew, as soon as they come to it."""
        self.replaced = max(self.now, self.replaced) + CYCLE_SECONDS
        self._at(self.replaced, self._schedule, pod)

    def _retry_hot(self) -> None:
        """Something has changed: let the first refused pod of each size try again.

        If that does not help it, it helps no other of its size; if it does, that is a change too.
        """
        self._tally()
        firsts = {pod.size: pod for pod in reversed(self.hot)}.values()
        self.hot = [pod for pod in self.hot if pod not in firsts]
        for pod in firsts:
            self._replace(pod)

    def _tally(self) -> None:
        """Count the tries that were in vain; the controllers took turns."""
        cycle = CYCLE_SECONDS * len(self.hot)
        for pod in self.hot:
            tries = int((self.now - pod.since) / cycle)
            pod.refusals += tries
            pod.since += tries * cycle

    def _bound(self, index: int, size: int) -> None:
        """Let the scheduler see a binding, or with a negative size that a pod is gone."""
        self.scheduler.bind(index, size)
        if self.policy.exact:
            self.scheduler.fits[index] = max(self.nodes[index].free)
        self.changed = True

    def _wake(self, index: int) -> None:
        while (pod := self.scheduler.pop(index)) is not None:
            self._schedule(pod)

    # A plugin's list, and how it becomes known.

    def _soon(self, what: str, index: int, every: float, call: Callable[..., None]) -> None:
        """Call at the node's next beat, once."""
        if (what, index) not in self.coming:
            self.coming.add((what, index))
            phase = self.phases[index]
            self._at((1 + (self.now + phase + 1e-6) // every) * every - phase, call, index)

    def _poll(self, index: int) -> None:
        self.coming.discard(("poll", index))
        self._refresh(index)

    def _refresh(self, index: int) -> None:
        node = self.nodes[index]
        if node.refresh(self.now):
            self.changed = True
        if node.allocatable != self.scheduler.allocatable[index]:
            self._soon("status", index, STATUS_SECONDS, self._status)
        if node.shown != node.free:
            self._soon("reminder", index, REMIND_SECONDS, self._remind)

    def _remind(self, index: int) -> None:
        self.coming.discard(("reminder", index))
        self._refresh(index)

    def _status(self, index: int) -> None:
        self.coming.discard(("status", index))
        self.scheduler.status(index, self.nodes[index].allocatable)
        self.changed = True
        self._wake(index)

    def _count(self, freed: int, asked: int) -> None:
        """Keep the sums over time of what is stranded and what is used."""
        if self.now > self.since:
            share = (self.now - self.since) / self.scenario.slots
            self.sums[0] += share * min(self.free, self.asked)
            self.sums[1] += share * (self.scenario.slots - self.free)
            self.since = self.now
        self.free += freed
        self.asked += asked
