"""Messages that a neighbour missed while a compressed link was down, and has to be sent."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from skerry.engine.message_sizes import BYTES_PER_PARAMETER
from skerry.engine.world import World

if TYPE_CHECKING:
    from skerry.engine.stack import MixingGroup

Ints = NDArray[np.int64]


class CatchUp:
    """The bytes for missed messages, of groups with compressed links that change."""

    def __init__(self) -> None:
        self._missed: dict[object, MissedMessages] = {}

    def bytes(self, group: "MixingGroup", world: World, t: int) -> int:
        """Bytes of round t for missed messages: the messages, or a whole copy if that is less."""
        assert group.compression is not None
        links = group.mixer.fleet, group.steps, group.rounds_without_mixing
        known = self._missed.get(links)
        if known is None or t < known.rounds:  # the run begins again
            known = self._missed[links] = MissedMessages(group)
        missed = known.counts(t)
        whole = BYTES_PER_PARAMETER * world.shared_parameters
        size = group.compression.compression.bytes(world.shared_parameters)
        at_most = np.where(missed > 0, max(0, whole - size), 0)
        return group.mixed_arrays * int(np.minimum(missed * size, at_most).sum())


class MissedMessages:
    """Messages that neighbours missed while their link was down, where links carry differences.

    A neighbour must know a device's public copy. When a link comes up, each side first sends what
    the other missed. So links that are new in every round gain nothing from compression. The counts
    follow from the round alone: a resumed run counts the same.
    """

    def __init__(self, group: "MixingGroup"):
        self._group, self._fleet = group, group.mixer.fleet
        self.rounds = 0
        self._sent_n = np.zeros(self._fleet.devices, dtype=np.int64)
        self._links: Ints = np.empty(0, dtype=np.int64)
        """All links that were ever up, each as a number, sorted."""
        self._received: Ints = np.empty((0, 2), dtype=np.int64)
        """How many messages of its two ends went over each link."""

    def counts(self, t: int) -> Ints:
        """The messages that each link of round t must catch up on. Rounds are asked in order."""
        for before in range(self.rounds, t):
            self._advance(before)
        return self._advance(t)

    def _advance(self, t: int) -> Ints:
        self.rounds = t + 1
        steps, edges = self._group.steps_in(t), self._fleet.edges(t)
        if not steps or not len(edges):
            return np.zeros(0, dtype=np.int64)
        links = edges[:, 0] * self._fleet.devices + edges[:, 1]
        places = self._places(links)
        missed = self._sent_n[edges] - self._received[places]
        self._sent_n[np.unique(edges)] += steps
        self._received[places] = self._sent_n[edges]
        return missed.ravel()

    def _places(self, links: Ints) -> Ints:
        """The places of these links among all; new links know only the common start."""
        new = np.setdiff1d(links, self._links)
        if len(new):
            known = np.concatenate([self._links, new])
            order = np.argsort(known)
            received = np.concatenate([self._received, np.zeros((len(new), 2), dtype=np.int64)])
            self._links, self._received = known[order], received[order]
        return np.searchsorted(self._links, links)
