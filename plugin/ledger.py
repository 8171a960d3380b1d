"""Which slots and whole cards are held: the kubelet never says so, and never says when one is free.

What is known of it comes in pieces that are each incomplete. The list of pods leaves out init
containers and is empty for a while after the kubelet's start; the checkpoint is older than the
newest Allocate and names what ended pods had. So an id is held from its Allocate, or from the first
time that either names it, until both lack it or the kubelet offers it to somebody.
"""

from collections.abc import Collection, Iterable

from plugin.checkpoint import Checkpoint
from plugin.pods import Holding, Pods

GRACE = 10.0
"""Seconds in which nobody needs to know of what was allocated: the kubelet is about to write it."""
AGAIN = 600.0
"""Seconds after which a new checkpoint is asked for though nothing has changed."""
_NONE: frozenset[str] = frozenset()


class Ledger:
    """Takes in what the kubelet says and does; times are of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.held: dict[str, set[str]] = {}
        """By card that somebody has a part of, the ids; for readers."""
        self.holdings: tuple[Holding, ...] = ()
        """As last listed."""
        self.known = False
        """Whether a checkpoint or a list of pods was read: else anything may be held."""
        self._until: dict[str, float] = {}
        """The held ids, each with the time until which its absence elsewhere says nothing yet."""
        self._listed: set[str] = set()
        """Held ids that the list of pods has shown."""
        self._offered: set[str] = set()
        """Ids given back since the last look: what that look saw may be older."""
        self._written: frozenset[str] = frozenset()
        """The ids of the last checkpoint that could be read."""
        self._sight: tuple[object, float] = (None, 0.0)
        """What one of the two lacked, which pods were listed, and since when all is as it is."""

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Take in the checkpoint that a process finds; None if it cannot be read."""
        self._take(frozenset(), checkpoint)

    def allocated(self, ids: Iterable[str], now: float) -> None:
        """Note what an Allocate is about to be answered with."""
        for each in ids:
            self._hold(each, now + GRACE)
        self._sight = None, 0.0

    def available(self, ids: Iterable[str]) -> None:
        """Note what the kubelet offers to a container: nobody has these, and it neither."""
        for each in self._until.keys() & set(ids):
            self._drop(each)
            self._offered.add(each)

    def polled(self, pods: Pods | None, checkpoint: Checkpoint | None, now: float) -> bool:
        """Take in one look at both, the checkpoint last; each is None if it could not be had.

        True asks for a device list to be sent, the same one: the kubelet then writes a checkpoint
        without those whose end it has seen, which it does not do by itself, and with those that it
        lacks because of two written at once the older came last.
        """
        shown = frozenset(each for held in pods.holdings for each in held.ids) if pods else _NONE
        self._take(shown, checkpoint)
        if checkpoint is not None:
            self._forget(self._until.keys() - shown - checkpoint.held, now)
        elif pods and pods.names:
            for each in shown & self._until.keys():  # a kubelet that starts lists some pods first
                self._until[each] = now + GRACE
            self._forget(self._listed - shown, now)
        if pods is None:
            return False
        self.known, self.holdings = self.known or bool(pods.names), pods.holdings
        written = shown if checkpoint is None else checkpoint.held
        return self._stale(frozenset(self._until.keys() - (shown & written)), pods, now)

    def _take(self, shown: frozenset[str], checkpoint: Checkpoint | None) -> None:
        """Hold what is listed, and what is new in the checkpoint: the rest of it may be old.

        Once seen there, its absence means something at once.
        """
        arrived = _NONE
        if checkpoint is not None:
            arrived, self._written = checkpoint.held - self._written, checkpoint.held
            self.known = True
        for each in (shown | arrived) - self._offered:
            self._hold(each, 0.0)
        self._listed |= shown & self._until.keys()
        self._offered.clear()

    def _forget(self, lacking: Collection[str], now: float) -> None:
        for each in lacking:
            if self._until[each] <= now:
                self._drop(each)

    def _stale(self, missing: frozenset[str], pods: Pods, now: float) -> bool:
        """Whether what one of the two lacks may be otherwise since a checkpoint was asked for."""
        sight, (before, when) = (missing, pods.names), self._sight
        changed = sight != before or now - when >= AGAIN
        if changed:
            self._sight = sight, now
        return changed and bool(missing)

    def _hold(self, each: str, until: float) -> None:
        self._until[each] = until
        self.held.setdefault(_card(each), set()).add(each)

    def _drop(self, each: str) -> None:
        card = _card(each)
        del self._until[each]
        self._listed.discard(each)
        self.held[card].discard(each)
        if not self.held[card]:
            del self.held[card]


def _card(device_id: str) -> str:
    return device_id.partition("::")[0]
