"""Messages and bytes, counted link by link: up to the server, down from it, between devices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.engine.compression import NUMBER
from skerry.engine.round import Meeting
from skerry.engine.stack import MixingGroup, Stack
from skerry.measure.missed import Missed, made_up

BYTES_PER_PARAMETER = NUMBER  # models travel as float32
LINKS = ("uplink", "downlink", "d2d")
UP, DOWN, D2D = range(3)
MADE_UP = 3
"""Bytes between devices that make up for messages they missed; there only where links are
compressed and come and go."""


class Ledger:
    """Running totals of messages per lane, a row per lane's key."""

    def __init__(self, totals: Mapping[str, Sequence[int]] | None = None):
        self._keys: tuple[str, ...] = tuple(totals or ())
        self._counts = _rows((totals or {}).values())
        self._missed: dict[object, Missed] = {}

    @property
    def totals(self) -> dict[str, list[int]]:
        rows = [row if row[MADE_UP] else row[:MADE_UP] for row in self._counts.tolist()]
        return dict(zip(self._keys, rows, strict=True))

    def add_round(self, stack: Stack, meetings: Sequence[Meeting], t: int) -> None:
        """Count round t: every link that is up carries one model each way, and what a method sends
        beside it; then the meetings."""
        counts = self._of(stack.keys)
        for group in stack.mixing:
            steps, links = group.steps_in(t), group.mixer.fleet.links(t)
            counts[group.lanes, D2D] += 2 * group.travels * steps * links
            if group.compression is not None and not group.mixer.fleet.fixed:
                counts[group.lanes, MADE_UP] += self._made_up(stack, group, t)
        for meeting in meetings:
            counts[meeting.lanes, UP] += meeting.uplink
            counts[meeting.lanes, DOWN] += meeting.downlink

    def measure(self, stack: Stack) -> dict[str, NDArray[Any]]:
        """Messages and bytes so far, for the lanes of a stack."""
        counts, sizes = self._of(stack.keys), message_bytes(stack)
        messages = {f"{link}_messages": counts[:, i].copy() for i, link in enumerate(LINKS)}
        sent = {f"{link}_bytes": counts[:, i] * sizes[:, i] for i, link in enumerate(LINKS)}
        sent["d2d_bytes"] += counts[:, MADE_UP]
        return {**messages, **sent}

    def _made_up(self, stack: Stack, group: MixingGroup, t: int) -> int:
        assert group.compression is not None
        links = group.mixer.fleet, group.steps, group.rests
        missed = self._missed.setdefault(links, Missed(group)).counts(t)
        whole = BYTES_PER_PARAMETER * stack.world.learner.parameters
        size = group.compression.compression.bytes(stack.world.learner.parameters)
        return group.travels * made_up(missed, size, whole)

    def _of(self, keys: tuple[str, ...]) -> NDArray[np.int64]:
        """The counts of these lanes, in their order; lanes that are gone leave the ledger."""
        if keys != self._keys:
            totals = self.totals
            self._counts = _rows(totals.get(key, []) for key in keys)
            self._keys = keys
        return self._counts


def message_bytes(stack: Stack) -> NDArray[np.int64]:
    """Of a message of every lane over each kind of link, [L, links]."""
    parameters = stack.world.learner.parameters
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


def _rows(totals: Any) -> NDArray[np.int64]:
    """What was counted of each lane, with nothing where nothing was."""
    width = MADE_UP + 1
    rows = [[*row, *[0] * (width - len(row))] for row in totals]
    return np.array(rows, dtype=np.int64).reshape(-1, width)
