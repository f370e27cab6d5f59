"""Rules that a method may demand of an experiment, and the faults of one that breaks them.

Each method lists its rules in its own file (`skerry/methods/`). A fault is one line,
reported before anything runs.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from skerry.config import labels, schedules
from skerry.config.fields import Availability, MethodChoice, Network, Server, Training
from skerry.config.section import Fault
from skerry.config.toml import toml_value
from skerry.plugins import registry

ANY_COMPRESSION = ("any",)
"""The `link_compressions` of a method whose laws hold with every compression."""


class Parts(Protocol):
    """The sections of an experiment that rules read."""

    @property
    def network(self) -> Network: ...
    @property
    def training(self) -> Training: ...
    @property
    def server(self) -> Server: ...
    @property
    def availability(self) -> Availability: ...
    @property
    def method(self) -> MethodChoice: ...


Rule = Callable[[Parts], Iterable[Fault]]
"""A rule of a method: it yields the faults of an experiment that breaks it."""


def must_be(path: str, *values: Any, why: str = "") -> Rule:
    """The rule that a field, `section.name`, has one of these values."""
    section, _, field = path.partition(".")

    def rule(parts: Parts) -> Iterator[Fault]:
        got = getattr(getattr(parts, section), field)
        if got not in values:
            wanted = " or ".join(toml_value(value) for value in values)
            reason = f": {why}" if why else ""
            yield (
                (path, "method.name"),
                f"method '{parts.method.name}' needs {path} = {wanted} (got {toml_value(got)})"
                f"{reason}. Set {path}={toml_value(values[0])}.",
            )

    return rule


def samples_all_devices(parts: Parts) -> Iterator[Fault]:
    """All devices are at the server."""
    if parts.server.sampled != parts.network.devices:
        yield (
            ("server.sampled", "network.devices", "method.name"),
            f"method '{parts.method.name}' needs all devices at the server (got server.sampled = "
            f"{parts.server.sampled} of {parts.network.devices}). Set server.sampled="
            f"{parts.network.devices}.",
        )


def samples_every_island(parts: Parts) -> Iterator[Fault]:
    """Every island is at the server."""
    server = parts.server
    own = ":" in server.selection  # a user's own rule may do it
    if server.selection != "one_each" and not own and server.sampled != parts.network.devices:
        yield (
            ("server.selection", "server.sampled", "method.name"),
            f"method '{parts.method.name}' needs every island at the server (got server.selection "
            f'= "{server.selection}"). Set server.selection=one_each.',
        )


def starts_after_a_period(parts: Parts) -> Iterator[Fault]:
    """The first server round ends a whole period."""
    if parts.server.offset != parts.server.period - 1:
        yield (
            ("server.offset", "server.period", "method.name"),
            f"method '{parts.method.name}' needs the first server round after a whole period (got "
            f"server.offset = {parts.server.offset}). Set server.offset={parts.server.period - 1}.",
        )


def not_selected_by(*names: str) -> Rule:
    """The rule that devices are not sampled by these selections."""

    def rule(parts: Parts) -> Iterator[Fault]:
        if parts.server.selection in names:
            yield (
                ("server.selection", "method.name"),
                f"method '{parts.method.name}' is not defined for server.selection = "
                f'"{parts.server.selection}". Set server.selection=uniform.',
            )

    return rule


def no_sleeping_devices(parts: Parts) -> Iterator[Fault]:
    """No device ever sleeps."""
    if parts.availability.sleeps:
        yield (
            ("availability.awake", "availability.on", "availability.off", "method.name"),
            f"method '{parts.method.name}' is not defined for devices that sleep: it counts on "
            "their steps. Leave [availability] out, or take gradient_tracking, carry or fedprox.",
        )


def waits_for_all(parts: Parts) -> Iterator[Fault]:
    """The server waits for all devices that it samples."""
    if parts.server.is_timed:
        field = "over_sample" if parts.server.deadline is None else "deadline"
        yield (
            (f"server.{field}", "method.name"),
            f"method '{parts.method.name}' is not defined for server.{field}: it counts on the "
            f"steps of all devices that are sampled. Leave server.{field} out, or take "
            "gradient_tracking, carry or fedprox.",
        )


def reaches_sleepers(parts: Parts) -> Iterator[Fault]:
    """The server reaches devices that sleep."""
    if parts.availability.sleeps and not parts.availability.reach_asleep:
        fields = ("awake", "on", "off", "reach_asleep")
        yield (
            (*(f"availability.{field}" for field in fields), "method.name"),
            f"method '{parts.method.name}' needs availability.reach_asleep = true where devices "
            "sleep: all start from the model delivered last. Set availability.reach_asleep=true.",
        )


ADAPTS_FIRST = must_be("training.order", "adapt_then_mix")
COUNT_ALIKE = must_be("training.weights", "equal")
PLAIN_STEPS = must_be("training.optimizer", "sgd", why="it defines the local step itself")
NO_DECAY = must_be("training.weight_decay", 0.0, why="it defines the local step itself")
ALL_METHODS = (ADAPTS_FIRST, COUNT_ALIKE, PLAIN_STEPS, NO_DECAY)
"""Rules of every method but plain SGD."""

ONE_STEP = must_be(
    "training.local_steps", 1, why="its rule is written for one gradient between two mixings"
)
AVERAGES = must_be("server.optimizer", "fedavg", why="it needs the average itself")
FIXED_PERIOD = must_be("server.period_schedule", "constant")
WHOLE_PERIODS = (starts_after_a_period, FIXED_PERIOD, no_sleeping_devices, waits_for_all)
COMPLETE_ISLANDS = (
    must_be("network.topology", "complete", why="an island averages completely"),
    must_be("network.mixing", "metropolis"),
    must_be("network.gossip_steps", 1),
    must_be("network.link_failure", 0.0),
)
SERVER_ONLY = (
    must_be("network.gossip_steps", 0, why="its devices know the server alone"),
    must_be("server.primitive", "s2a"),
    AVERAGES,
)
"""Rules of methods without links, whose server reaches all devices."""


def method_faults(parts: Parts) -> Iterator[Fault]:
    """The rules that an experiment breaks: of its compression, then of its method."""
    yield from _compression_faults(parts)
    if parts.method.is_plain:
        return
    yield from local_epoch_faults(parts)
    rules = _built_in(parts.method.name, "rules") or ()
    for rule in (*ALL_METHODS, *rules):
        yield from rule(parts)


def local_epoch_faults(parts: Parts) -> Iterator[Fault]:
    """Local epochs need a method whose laws allow for devices with different numbers of steps."""
    name = parts.method.name
    if parts.training.local_epochs is None or getattr(
        registry.resolve("method", name), "local_epochs", False
    ):
        return
    known = [one for one in registry.METHODS if _built_in(one, "local_epochs")]
    own = "" if registry.is_builtin("method", name) else " (a class of yours: local_epochs = True)"
    yield (
        ("training.local_epochs", "method.name"),
        f"training.local_epochs is not defined for method '{name}': its rule counts on devices "
        f"that take the same number of steps. Set training.local_steps, or set method.name to one "
        f"of {', '.join(known)}{own}.",
    )


def _built_in(name: str, attribute: str) -> Any:
    """An attribute of a built-in method's class; None for a user's own method."""
    is_builtin = registry.is_builtin("method", name)
    return getattr(registry.resolve("method", name), attribute) if is_builtin else None


def _compression_faults(parts: Parts) -> Iterator[Fault]:
    network, server, name = parts.network, parts.server, parts.method.name
    compresses_server = server.compresses and server.is_there
    if network.compresses and network.gossip_steps:
        allowed = _built_in(name, "link_compressions") or ()
        if allowed != ANY_COMPRESSION and network.compression not in allowed:
            fix = f", or take {' or '.join(allowed)}" if allowed else ""
            yield _undefined("network", name, fix)
    if compresses_server and not _built_in(name, "compresses_server"):
        yield _undefined("server", name)
    if not compresses_server:
        return
    if server.primitive not in labels.ON_THE_DIAL:
        yield (
            ("server.compression", "server.primitive"),
            "server.compression needs server.primitive = s2s, s2a or blend (got "
            f"{server.primitive!r}): both sides must know who received what. Leave "
            "server.compression out.",
        )
    if server.is_adaptive():
        yield (
            ("server.compression", *(f"server.{field}_schedule" for field in schedules.RANGES)),
            "server.compression needs schedules that do not depend on the models (got an "
            "adaptive one): the server never sees them whole. Change one of them.",
        )


def _undefined(section: str, method: str, fix: str = "") -> Fault:
    attribute = "link_compressions" if section == "network" else "compresses_server"
    allowed = (ANY_COMPRESSION, True)
    names = [name for name in registry.METHODS if _built_in(name, attribute) in allowed]
    return (
        (f"{section}.compression", "method.name"),
        f"{section}.compression is not defined for method '{method}': its rule needs models as "
        f"they are. Leave {section}.compression out{fix}, or set method.name to one of "
        f"{', '.join(names)}.",
    )
