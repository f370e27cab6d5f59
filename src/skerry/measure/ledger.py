"""Messages and bytes, counted link by link: up to the server, down from it, between devices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.engine.compression import NUMBER
from skerry.engine.round import ServerRound
from skerry.engine.stack import MixingGroup, Stack

BYTES_PER_PARAMETER = NUMBER  # models travel as float32
LINKS = ("uplink", "downlink", "d2d")
UP, DOWN, D2D = range(3)
CATCH_UP = 3  # bytes for messages missed while a compressed link was down, where links change

Ints = NDArray[np.int64]


class Ledger:
    """Running totals of messages, a row for each lane's key."""

    def __init__(self, totals: Mapping[str, Sequence[int]] | None = None):
        self._keys: tuple[str, ...] = tuple(totals or ())
        self._counts = _padded_rows((totals or {}).values())
        self._missed: dict[object, MissedMessages] = {}

    @property
    def totals(self) -> dict[str, list[int]]:
        """The counts of every lane by its key, as checkpoints save them."""
        rows = [row if row[CATCH_UP] else row[:CATCH_UP] for row in self._counts.tolist()]
        return dict(zip(self._keys, rows, strict=True))

    def add_round(self, stack: Stack, server_rounds: Sequence[ServerRound], t: int) -> None:
        """Count the messages of round t: every link that is up carries each array both ways."""
        counts = self._rows(stack.keys)
        for group in stack.mixing:
            steps, links = group.steps_in(t), group.mixer.fleet.links(t)
            counts[group.lanes, D2D] += 2 * group.mixed_arrays * steps * links
            if group.compression is not None and not group.mixer.fleet.fixed:
                counts[group.lanes, CATCH_UP] += self._catch_up_bytes(stack, group, t)
        for server_round in server_rounds:
            counts[server_round.lanes, UP] += server_round.uplink
            counts[server_round.lanes, DOWN] += server_round.downlink

    def measure(self, stack: Stack) -> dict[str, NDArray[Any]]:
        """Messages and bytes so far, for the lanes of a stack."""
        counts, sizes = self._rows(stack.keys), message_bytes(stack)
        messages = {f"{link}_messages": counts[:, i].copy() for i, link in enumerate(LINKS)}
        sent = {f"{link}_bytes": counts[:, i] * sizes[:, i] for i, link in enumerate(LINKS)}
        sent["d2d_bytes"] += counts[:, CATCH_UP]
        return {**messages, **sent}

    def _catch_up_bytes(self, stack: Stack, group: MixingGroup, t: int) -> int:
        """Bytes of round t for missed messages: the messages, or a whole copy if that is less."""
        assert group.compression is not None
        links = group.mixer.fleet, group.steps, group.rounds_without_mixing
        missed = self._missed.setdefault(links, MissedMessages(group)).counts(t)
        whole = BYTES_PER_PARAMETER * stack.world.shared_parameters
        size = group.compression.compression.bytes(stack.world.shared_parameters)
        at_most = np.where(missed > 0, max(0, whole - size), 0)
        return group.mixed_arrays * int(np.minimum(missed * size, at_most).sum())

    def _rows(self, keys: tuple[str, ...]) -> Ints:
        """The counts of these lanes, in their order; other lanes leave the ledger."""
        if keys != self._keys:
            totals = self.totals
            self._counts = _padded_rows(totals.get(key, []) for key in keys)
            self._keys = keys
        return self._counts


class MissedMessages:
    """Messages that neighbours missed while their link was down, where links carry differences.

    A neighbour must know a device's public copy. When a link comes up, each side first sends what
    the other missed. So links that are new in every round gain nothing from compression. The counts
    follow from the round alone: a resumed run counts the same.
    """

    def __init__(self, group: MixingGroup):
        self._group, self._fleet = group, group.mixer.fleet
        self._rounds = 0
        self._sent_n = np.zeros(self._fleet.devices, dtype=np.int64)
        self._links: Ints = np.empty(0, dtype=np.int64)
        """All links that were ever up, each as a number, sorted."""
        self._received: Ints = np.empty((0, 2), dtype=np.int64)
        """How many messages of its two ends went over each link."""

    def counts(self, t: int) -> Ints:
        """The messages that each link of round t must catch up on. Rounds are asked in order."""
        for before in range(self._rounds, t):
            self._advance(before)
        return self._advance(t)

    def _advance(self, t: int) -> Ints:
        self._rounds = t + 1
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


def message_bytes(stack: Stack) -> Ints:
    """The bytes of one message of every lane over each kind of link, [L, links]."""
    parameters = stack.world.shared_parameters
    sizes = np.full((len(stack), len(LINKS)), BYTES_PER_PARAMETER * parameters)
    for mixing in stack.mixing:
        if mixing.compression is not None:
            sizes[mixing.lanes, D2D] = mixing.compression.compression.bytes(parameters)
    for server in stack.servers:
        if server.compression is not None:
            for link, way in ((UP, server.compression.up), (DOWN, server.compression.down)):
                if way is not None:
                    sizes[server.lanes, link] = way.bytes(parameters)
    return sizes


def _padded_rows(totals: Any) -> Ints:
    """The counts of each lane as a row, padded with zeros."""
    width = CATCH_UP + 1
    rows = [[*row, *[0] * (width - len(row))] for row in totals]
    return np.array(rows, dtype=np.int64).reshape(-1, width)
