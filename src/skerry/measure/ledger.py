"""Messages and bytes, counted link by link: up to the server, down from it, between devices."""

from collections.abc import Sequence

from skerry.engine.round import Meeting
from skerry.engine.stack import Stack

BYTES_PER_PARAMETER = 4  # models travel as float32
LINKS = ("uplink", "downlink", "d2d")


class Ledger:
    """Running totals per lane, by the lane's key."""

    def __init__(self, totals: dict[str, list[int]] | None = None):
        self.totals = totals or {}

    def add_round(self, stack: Stack, meetings: Sequence[Meeting], t: int) -> None:
        """Count round t: every link that is up carries one model each way; then the meetings."""
        for group in stack.mixing:
            links = group.mixer.fleet.links(t)
            for key in stack.keys[group.lanes]:
                self.totals.setdefault(key, [0, 0, 0])[2] += 2 * links
        for meeting in meetings:
            for key in stack.keys[meeting.lanes]:
                self.totals[key][0] += meeting.uplink
                self.totals[key][1] += meeting.downlink

    def measure(self, key: str, parameters: int) -> dict[str, float]:
        totals = self.totals.get(key, [0, 0, 0])
        messages = {f"{link}_messages": total for link, total in zip(LINKS, totals, strict=True)}
        size = BYTES_PER_PARAMETER * parameters
        return {
            **messages,
            **{f"{link}_bytes": total * size for link, total in zip(LINKS, totals, strict=True)},
        }
