"""Messages and bytes, counted link by link: up to the server, down from it, between devices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.engine.round import Meeting
from skerry.engine.stack import Stack

BYTES_PER_PARAMETER = 4  # models travel as float32
LINKS = ("uplink", "downlink", "d2d")
UP, DOWN, D2D = range(3)


class Ledger:
    """Running totals of messages per lane, a row per lane's key."""

    def __init__(self, totals: Mapping[str, Sequence[int]] | None = None):
        self._keys: tuple[str, ...] = tuple(totals or ())
        self._counts = np.array([*(totals or {}).values()], dtype=np.int64).reshape(-1, len(LINKS))

    @property
    def totals(self) -> dict[str, list[int]]:
        return dict(zip(self._keys, self._counts.tolist(), strict=True))

    def add_round(self, stack: Stack, meetings: Sequence[Meeting], t: int) -> None:
        """Count round t: every link that is up carries one model each way, and what a method sends
        beside it; then the meetings."""
        counts = self._of(stack.keys)
        for group in stack.mixing:
            travels = 1 if group.method is None else group.method.travels
            steps = group.steps_in(t)
            counts[group.lanes, D2D] += 2 * travels * steps * group.mixer.fleet.links(t)
        for meeting in meetings:
            counts[meeting.lanes, UP] += meeting.uplink
            counts[meeting.lanes, DOWN] += meeting.downlink

    def measure(self, keys: tuple[str, ...], parameters: int) -> dict[str, NDArray[Any]]:
        """Messages and bytes so far, for these lanes."""
        counts = self._of(keys)
        messages = {f"{link}_messages": counts[:, i].copy() for i, link in enumerate(LINKS)}
        size = BYTES_PER_PARAMETER * parameters
        return {
            **messages,
            **{f"{link}_bytes": counts[:, i] * size for i, link in enumerate(LINKS)},
        }

    def _of(self, keys: tuple[str, ...]) -> NDArray[np.int64]:
        """The counts of these lanes, in their order; lanes that are gone leave the ledger."""
        if keys != self._keys:
            totals = self.totals
            self._counts = np.array([totals.get(key, [0] * len(LINKS)) for key in keys])
            self._keys = keys
        return self._counts
