"""What devices missed of each other while their link was down, where links carry differences.

A neighbour must know a device's public copy. When a link comes up, each side first sends what the
other missed: its messages since then, or the whole copy where that is shorter. So links that are
new in every round gain nothing from compression.
"""

import numpy as np
from numpy.typing import NDArray

from skerry.engine.stack import MixingGroup

Ints = NDArray[np.int64]


class Missed:
    """Of one group of lanes. It follows from the round alone: a run that was stopped counts the
    same."""

    def __init__(self, group: MixingGroup):
        self._group, self._fleet = group, group.mixer.fleet
        self._rounds = 0
        self._sent_n = np.zeros(self._fleet.devices, dtype=np.int64)
        self._links: Ints = np.empty(0, dtype=np.int64)
        """All that ever were up, each as a number, in order."""
        self._heard: Ints = np.empty((0, 2), dtype=np.int64)
        """How many messages of its two ends went over each."""

    def counts(self, t: int) -> Ints:
        """The messages that every link that is up in round t must make up for, both ways; rounds
        are asked for one after the other, or some are left out."""
        for before in range(self._rounds, t):
            self._go_on(before)
        return self._go_on(t)

    def _go_on(self, t: int) -> Ints:
        self._rounds = t + 1
        steps, edges = self._group.steps_in(t), self._fleet.edges(t)
        if not steps or not len(edges):
            return np.zeros(0, dtype=np.int64)
        links = edges[:, 0] * self._fleet.devices + edges[:, 1]
        places = self._places(links)
        missed = self._sent_n[edges] - self._heard[places]
        self._sent_n[np.unique(edges)] += steps
        self._heard[places] = self._sent_n[edges]
        return missed.ravel()

    def _places(self, links: Ints) -> Ints:
        """Where these links stand among all; new ones have heard nothing but the start."""
        new = np.setdiff1d(links, self._links)
        if len(new):
            known = np.concatenate([self._links, new])
            order = np.argsort(known)
            heard = np.concatenate([self._heard, np.zeros((len(new), 2), dtype=np.int64)])
            self._links, self._heard = known[order], heard[order]
        return np.searchsorted(self._links, links)


def made_up(missed: Ints, size: int, whole: int) -> int:
    """Bytes beside those of the round's own messages, where a message has `size` bytes and a copy
    that is sent whole `whole`."""
    return int(np.minimum(missed * size, np.where(missed > 0, max(0, whole - size), 0)).sum())
