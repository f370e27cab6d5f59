"""The section [availability]: which devices are awake in which round."""

from collections.abc import Iterable
from typing import Literal

from skerry.config.section import Count, Fault, Section, UpToOne


class Availability(Section):
    """When devices are awake, and whether asleep ones receive models."""

    awake: UpToOne | tuple[UpToOne, ...] | str = 1.0
    """Probability that a device is awake in a round: one number, a list with one for each device,
    or a trace file (CSV: device, from, to). A sleeping device does not train or mix
    and is not sampled."""
    on: Count | None = None
    """Rounds that a device stays awake before it sleeps for `off` rounds, each at its own time."""
    off: Count | None = None
    """Rounds that a device then sleeps."""
    together: Literal["devices", "islands"] = "devices"
    """What falls asleep at the same time: each device on its own, or whole islands."""
    reach_asleep: bool = False
    """Whether sleeping devices receive what S2A and blend deliver; they use it when they wake."""

    def faults(self) -> Iterable[Fault]:
        if (self.on is None) != (self.off is None):
            yield (
                ("availability.on", "availability.off"),
                "availability.on and availability.off go together: rounds awake, then rounds "
                "asleep (got one). Set both.",
            )

    @property
    def sleeps(self) -> bool:
        """Whether any device may ever be asleep."""
        return self.awake != 1.0 or self.on is not None
