"""The section [fleet]."""

from collections.abc import Iterable
from typing import Annotated, Literal

from skerry.config.fields.numbers import Count, UpToOne
from skerry.config.section import Fault, Later, Section


class Fleet(Section):
    """Who is awake."""

    awake: Annotated[UpToOne | tuple[UpToOne, ...] | str, Later()] = 1.0
    """How likely a device is awake in a round: one chance, a list with one for each device, or a
    trace file (CSV: device, from, to). An asleep device neither trains nor mixes nor is sampled."""
    on: Annotated[Count | None, Later()] = None
    """Rounds that devices stay awake before they sleep for `off` rounds, each at its own time."""
    off: Annotated[Count | None, Later()] = None
    """Rounds that they then sleep."""
    together: Annotated[Literal["devices", "islands"], Later()] = "devices"
    """Who falls asleep at the same time: each device by itself, or whole islands."""
    reach_asleep: Annotated[bool, Later()] = False
    """Whether asleep devices receive what S2A and blend deliver; they take it when they wake."""

    def faults(self) -> Iterable[Fault]:
        if (self.on is None) != (self.off is None):
            yield (
                ("fleet.on", "fleet.off"),
                "fleet.on and fleet.off go together: rounds awake, then rounds asleep (got one). "
                "Set both.",
            )

    @property
    def sleeps(self) -> bool:
        """Whether anybody ever may."""
        return self.awake != 1.0 or self.on is not None
