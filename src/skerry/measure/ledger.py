"""Messages and bytes, counted link by link: up to the server, down from it, between devices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skerry.engine.message_sizes import D2D, DOWN, LINKS, UP, bytes_per_message
from skerry.engine.missed_messages import CatchUp
from skerry.engine.round import ServerRound
from skerry.engine.stack import Stack

CATCH_UP = 3  # bytes for messages missed while a compressed link was down, where links change

Ints = NDArray[np.int64]


class Ledger:
    """Running totals of messages, a row for each lane's key."""

    def __init__(self, totals: Mapping[str, Sequence[int]] | None = None):
        self._keys: tuple[str, ...] = tuple(totals or ())
        self._counts = _padded_rows((totals or {}).values())
        self._missed = CatchUp()

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
                counts[group.lanes, CATCH_UP] += self._missed.bytes(group, stack.world, t)
        for server_round in server_rounds:
            counts[server_round.lanes, UP] += server_round.uplink
            counts[server_round.lanes, DOWN] += server_round.downlink

    def measure(self, stack: Stack) -> dict[str, NDArray[Any]]:
        """Messages and bytes so far, for the lanes of a stack."""
        counts, sizes = self._rows(stack.keys), bytes_per_message(stack)
        messages = {f"{link}_messages": counts[:, i].copy() for i, link in enumerate(LINKS)}
        sent = {f"{link}_bytes": counts[:, i] * sizes[:, i] for i, link in enumerate(LINKS)}
        sent["d2d_bytes"] += counts[:, CATCH_UP]
        return {**messages, **sent}

    def _rows(self, keys: tuple[str, ...]) -> Ints:
        """The counts of these lanes, in their order; other lanes leave the ledger."""
        if keys != self._keys:
            totals = self.totals
            self._counts = _padded_rows(totals.get(key, []) for key in keys)
            self._keys = keys
        return self._counts


def _padded_rows(totals: Any) -> Ints:
    """The counts of each lane as a row, padded with zeros."""
    width = CATCH_UP + 1
    rows = [[*row, *[0] * (width - len(row))] for row in totals]
    return np.array(rows, dtype=np.int64).reshape(-1, width)
