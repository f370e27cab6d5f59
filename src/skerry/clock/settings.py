"""The clock file: how long steps and messages take on a fleet, and what they cost in energy.

clock = read_clock("wifi.toml")   # a file, or the name of an example such as "wifi_home"
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from skerry.clock.units import Bandwidth, Duration
from skerry.config import toml
from skerry.config.explain import explain
from skerry.config.section import REAL, NotNegative, Section, fields_of
from skerry.errors import ExperimentError, nearest, skerry_command, typed
from skerry.files import beside

EXAMPLES = toml.EXAMPLE_CLOCKS
Channel = Literal["parallel", "one_by_one", "shared"]
Spread = Annotated[float, Field(ge=0, le=5), REAL]
"""Of the logarithm of a factor: with 5, one device in six is 150 times slower."""


class Compute(Section):
    """How long a local step takes, and what computing and waiting cost."""

    seconds_per_step: Duration = 0.05
    """Duration of one local step on a usual device, such as 0.05 or "50 ms"."""
    spread: Spread = 0.0
    """How much devices differ: the standard deviation of the logarithm of a factor on the duration
    of a step, drawn for each device by the seed; 0.5 makes one device in six 1.6 times slower."""
    slow: dict[str, Annotated[float, REAL]] = Field(default_factory=dict)
    """A factor on the duration of a step for single devices by name, such as { porch = 4.0 }."""
    jitter: Spread = 0.0
    """How much the steps of one device differ between rounds: as spread, drawn in every round."""
    watts: NotNegative = 0.0
    """Power while a device computes."""
    idle_watts: NotNegative = 0.0
    """Power while a device does not compute: it waits, sends or receives. What messages need by
    their bytes comes on top."""

    @field_validator("slow")
    @classmethod
    def _are_factors(cls, slow: dict[str, float]) -> dict[str, float]:
        for name, factor in slow.items():
            if not 0 < factor < float("inf"):
                raise ValueError(
                    f"compute.slow must have factors above 0 (got {name} = {factor:g}). Use 1 for "
                    "a usual device."
                )
        return slow


class D2D(Section):
    """Messages between neighbours (D2D)."""

    bandwidth: Bandwidth | None = None
    """Bandwidth of a device's link, such as "20 MB/s"; left out: no limit."""
    latency: Duration = 0.0
    """Delay of a message before its first byte arrives, such as "5 ms"."""
    channel: Channel = "parallel"
    """parallel: a device sends to all neighbours at once; one_by_one: to one after the other;
    shared: all messages of an island go over one channel, one after the other."""
    joules_per_byte: NotNegative = 0.0
    """Energy that a device needs to send or to receive a byte."""


class Uplink(Section):
    """Messages from a device to the server."""

    bandwidth: Bandwidth | None = None
    """Bandwidth of a device to the server; left out: no limit."""
    latency: Duration = 0.0
    """Delay of a message to the server."""
    joules_per_byte: NotNegative = 0.0
    """Energy that a device needs to send a byte to the server."""


class Downlink(Section):
    """Messages from the server to a device."""

    bandwidth: Bandwidth | None = None
    """Bandwidth of a device from the server; left out: no limit."""
    latency: Duration = 0.0
    """Delay of a message from the server."""
    broadcast: Bandwidth | None = None
    """Bandwidth of one message to all devices at once, for S2A and blend; left out: every device
    receives a message of its own."""
    joules_per_byte: NotNegative = 0.0
    """Energy that a device needs to receive a byte from the server."""


class Ports(Section):
    """The server's own network, which all messages share."""

    bandwidth_in: Bandwidth | None = None
    """Bandwidth of all messages to the server together; left out: no limit."""
    bandwidth_out: Bandwidth | None = None
    """Bandwidth of all messages from the server together; left out: no limit."""


class Clock(Section):
    """How long steps and messages take on a fleet, and what they cost in energy."""

    devices: str = ""
    """A CSV file with a row for each device and any of the columns device, seconds_per_step,
    uplink, downlink and d2d (bandwidths). Without the column device, every device draws a row by
    the seed."""
    compute: Compute = Compute()
    d2d: D2D = D2D()
    uplink: Uplink = Uplink()
    downlink: Downlink = Downlink()
    server: Ports = Ports()

    @property
    def has_energy(self) -> bool:
        """Whether anything costs energy."""
        compute, links = self.compute, (self.d2d, self.uplink, self.downlink)
        powers = (compute.watts, compute.idle_watts, *(one.joules_per_byte for one in links))
        return any(powers)

    @classmethod
    def parse(cls, table: Mapping[str, Any]) -> "Clock":
        """A clock from nested tables; all faults at once."""
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            raise ExperimentError(*explain(error, fields_of(cls), "A clock")) from None

    @classmethod
    def load(cls, path: str | Path) -> "Clock":
        """A clock from a TOML file; the path of its device table starts from the file's folder."""
        if not Path(path).exists():
            raise ExperimentError(
                f"no clock file {path}. Make one: {skerry_command('clock', 'new')} > {typed(path)}"
            )
        table = toml.read_tables(path)
        if {"network", "data", "training"} & table.keys():
            raise ExperimentError(
                f"{path} is an experiment, not a clock. Make a clock: "
                f"{skerry_command('clock', 'new')} > clock.toml"
            )
        if isinstance(devices := table.get("devices"), str):
            table["devices"] = beside(Path(path).parent, devices)
        return cls.parse(table)


AnyClock = str | Path | Mapping[str, Any] | Clock
"""A clock, or what `read_clock` makes one from."""


def read_clock(name: AnyClock) -> Clock:
    """A clock: from a file, by the name of an example, from tables, or the clock itself."""
    if isinstance(name, Clock):
        return name
    if isinstance(name, Mapping):
        return Clock.parse(name)
    if not isinstance(name, str | Path):
        raise ExperimentError(
            f"a clock must be a file, the name of an example or a dict of tables (got {name!r}). "
            f"Examples are {', '.join(EXAMPLES)}."
        )
    if str(name) in EXAMPLES:
        return Clock.parse(toml.parse_tables(example_text(str(name)), str(name)))
    is_folder = Path(name).is_dir()
    if is_folder or not (Path(name).exists() or str(name).endswith(".toml")):
        beside_it = [f"{name}.toml"] if name and Path(f"{name}.toml").exists() else []
        close = beside_it or nearest(str(name), EXAMPLES)
        hint = f"; did you mean '{close[0]}'?" if close else "."
        raise ExperimentError(
            f"no clock '{name}'{hint} Examples are {', '.join(EXAMPLES)}; or make a file: "
            f"{skerry_command('clock', 'new')} > clock.toml"
        )
    return Clock.load(name)


def example_text(name: str) -> str:
    """The text of an example, with the sources of its numbers."""
    return (files("skerry.clock") / "examples" / f"{name}.toml").read_text(encoding="utf-8")
