"""What each method is, in words, and what it asks of an experiment: one table, a row for each.

The arithmetic is in `engine/methods/`. A method that is not defined for an experiment (several
local steps, sleep, unsampled islands) says so in a line, before anything runs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from skerry.config import labels, schedules
from skerry.config.fields import Availability, MethodChoice, Network, Server, Training
from skerry.config.section import Fault
from skerry.config.toml import toml_value


class Parts(Protocol):
    """Of an experiment, what methods look at."""

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


COMMON = "as it is commonly described; not held against the paper or its code"
ABSTRACT = "read in the paper's abstract; the rest as it is commonly described"
CODE = "read in the authors' code, "
OTHERS = "read in code of others, "
Need = Callable[[Parts], Iterable[Fault]]


@dataclass(frozen=True)
class Row:
    rule: str
    keeps: str
    sends: str
    """Vectors per round over links, and per server round up and down; E links, K sampled of n."""
    exact: str
    """Where it ends with full gradients and a constant stepsize."""
    source: str
    known: str = COMMON
    """How well: where the rule was read."""
    needs: tuple[Need, ...] = ()
    is_experimental: bool = False
    up: int = 1
    """Vectors that a sampled device sends in a server round."""
    down: int = 1
    """Vectors that each device receives whom the primitive reaches."""
    more_down: int = 0
    """And those that each sampled device receives beside them."""
    travels: int = 1
    """Vectors that go each way over every link in a mixing."""


def _set_to(path: str, *values: Any, why: str = "") -> Need:
    """A field must have one of these values."""
    section, _, field = path.partition(".")

    def faults(parts: Parts) -> Iterator[Fault]:
        got = getattr(getattr(parts, section), field)
        if got not in values:
            wanted = " or ".join(toml_value(value) for value in values)
            reason = f": {why}" if why else ""
            yield (
                (path, "method.name"),
                f"method '{parts.method.name}' needs {path} = {wanted} (got {toml_value(got)})"
                f"{reason}. Set {path}={toml_value(values[0])}.",
            )

    return faults


def _everybody(parts: Parts) -> Iterator[Fault]:
    if parts.server.sampled != parts.network.devices:
        yield (
            ("server.sampled", "network.devices", "method.name"),
            f"method '{parts.method.name}' needs all devices at the server (got server.sampled = "
            f"{parts.server.sampled} of {parts.network.devices}). Set server.sampled="
            f"{parts.network.devices}.",
        )


def _every_island(parts: Parts) -> Iterator[Fault]:
    server = parts.server
    own = ":" in server.selection  # a user's own rule may do it
    if server.selection != "one_each" and not own and server.sampled != parts.network.devices:
        yield (
            ("server.selection", "server.sampled", "method.name"),
            f"method '{parts.method.name}' needs every island at the server (got server.selection "
            f'= "{server.selection}"). Set server.selection=one_each.',
        )


def _after_a_whole_period(parts: Parts) -> Iterator[Fault]:
    if parts.server.offset != parts.server.period - 1:
        yield (
            ("server.offset", "server.period", "method.name"),
            f"method '{parts.method.name}' needs the first server round after a whole period (got "
            f"server.offset = {parts.server.offset}). Set server.offset={parts.server.period - 1}.",
        )


def _not_selected_by(*names: str) -> Need:
    def faults(parts: Parts) -> Iterator[Fault]:
        if parts.server.selection in names:
            yield (
                ("server.selection", "method.name"),
                f"method '{parts.method.name}' is not defined for server.selection = "
                f'"{parts.server.selection}". Set server.selection=uniform.',
            )

    return faults


def _nobody_asleep(parts: Parts) -> Iterator[Fault]:
    if parts.availability.sleeps:
        yield (
            ("availability.awake", "availability.on", "availability.off", "method.name"),
            f"method '{parts.method.name}' is not defined for devices that sleep: it counts on "
            "their steps. Leave [availability] out, or take gradient_tracking, carry or fedprox.",
        )


def _asleep_reached(parts: Parts) -> Iterator[Fault]:
    if parts.availability.sleeps and not parts.availability.reach_asleep:
        fields = ("awake", "on", "off", "reach_asleep")
        yield (
            (*(f"availability.{field}" for field in fields), "method.name"),
            f"method '{parts.method.name}' needs availability.reach_asleep = true where devices "
            "sleep: all start from the model delivered last. Set availability.reach_asleep=true.",
        )


PLAIN_STEPS = _set_to("training.optimizer", "sgd", why="it says itself how devices step")
NO_DECAY = _set_to("training.weight_decay", 0.0, why="it says itself how devices step")
ADAPTS_FIRST = _set_to("training.order", "adapt_then_mix")
COUNT_ALIKE = _set_to("training.weights", "equal")
ONE_STEP = _set_to(
    "training.local_steps", 1, why="its rule is written for one gradient between two mixings"
)
AVERAGES = _set_to("server.optimizer", "fedavg", why="it needs the average itself")
NO_LINKS = _set_to("network.gossip_steps", 0, why="its devices know the server alone")
TO_ALL = _set_to("server.primitive", "s2a")
FIXED_PERIOD = _set_to("server.period_schedule", "constant")
ON_ISLANDS = (
    _set_to("network.topology", "complete", why="an island averages completely"),
    _set_to("network.mixing", "metropolis"),
    _set_to("network.gossip_steps", 1),
    _set_to("network.link_failure", 0.0),
)
FROM_THE_SERVER = (NO_LINKS, TO_ALL, AVERAGES)

METHODS = {
    "sgd": Row(
        "X <- X - eta G(X), then mixing, then the server: Algorithm 1.",
        "nothing",
        "2E over links; K up; K (S2S) or n (S2A, blend) down",
        "no: data that differ leave an error that stays",
        "",
    ),
    "gradient_tracking": Row(
        "Y <- Y + G - G_before; X <- W (X - eta Y); Y <- W Y. The server meets X by the "
        "experiment's primitive, and Y by S2S.",
        "Y and the last gradient: 2 arrays",
        "4E over links; 2K up; 2K (X by S2S) or n + K (X by S2A) down",
        "yes, for every sample",
        "Di Lorenzo and Scutari, 2016; the same flow is a baseline in the code of SD-GT's authors",
        COMMON,
        (
            ONE_STEP,
            AVERAGES,
            _set_to("server.primitive", "s2s", "s2a", "blend", "none"),
        ),
        up=2,
        more_down=1,
        travels=2,
    ),
    "sd_gt": Row(
        "X <- W (X - eta (G + Y + Z)); Z gathers (W (G + Z) - (G + Z)) / H. At the server, Y of a "
        "sampled device becomes how much more its island moved than all, per step.",
        "Y, Z, the next Z, G + Z and the models of the last server round: 5 arrays; a server model",
        "4E over links; K up; 2K down",
        "yes, if every island is sampled",
        "Chen et al., INFOCOM; here islands count by their size, there alike",
        f"{CODE}EvanChen022kan/SD-GT-INFOCOM",
        (
            ONE_STEP,
            AVERAGES,
            _set_to("server.primitive", "s2s"),
            _every_island,
            _after_a_whole_period,
            FIXED_PERIOD,
            _nobody_asleep,
        ),
        down=2,
        travels=2,
    ),
    "mtgc": Row(
        "X <- X - eta (G + Y + Z); Z gathers what the island's average takes from a device, per "
        "step, and starts anew at every server round; Y what the average of all takes.",
        "Y and Z: 2 arrays",
        "2E over links (n up and n down with an edge server); n up; n down",
        "yes",
        "Fang et al., MTGC",
        f"{CODE}wenzhifang/MTGC",
        (
            *ON_ISLANDS,
            AVERAGES,
            _set_to("server.primitive", "s2a", "s2s"),
            _everybody,
            _after_a_whole_period,
            FIXED_PERIOD,
            _nobody_asleep,
        ),
    ),
    "scaffold": Row(
        "X <- X - eta (G - c_i + c). At the server c_i of a sampled device becomes its mean "
        "gradient since the model delivered last (option II), c the mean of all c_i.",
        "c_i: 1 array; c and the model delivered last at the server",
        "0 over links; 2K up; 2n down",
        "yes, for every sample",
        "Karimireddy et al., ICML 2020",
        f"{OTHERS}SD-GT's; the rest as it is commonly described",
        (
            *FROM_THE_SERVER,
            _not_selected_by("importance", "bernoulli"),  # nobody may come: steps are not counted
            FIXED_PERIOD,
            _nobody_asleep,
        ),
        up=2,
        down=2,
    ),
    "fedvarp": Row(
        "x <- x - mean over the sampled of (D_i - g_i) - mean of all g; then g_i <- D_i, how far a "
        "sampled device went.",
        "a table of what every device sent last, at the server: 1 array",
        "0 over links; K up; n down",
        "no: it ends where FedAvg with everybody ends; sampling adds no error, local steps do",
        "Jhunjhunwala et al., UAI 2022",
        "read in code of others",
        (*FROM_THE_SERVER, _not_selected_by("importance"), _asleep_reached),
    ),
    "mifa": Row(
        "g_i <- D_i for the sampled; x <- x - mean of all g.",
        "a table of what every device sent last, at the server: 1 array",
        "0 over links; K up; n down",
        "no: as fedvarp",
        "Gu et al., NeurIPS 2021; theirs first waits until everybody came once",
        f"{CODE}hmgxr128/MIFA_code",
        (*FROM_THE_SERVER, _not_selected_by("importance"), _asleep_reached),
    ),
    "fedprox": Row(
        "X <- X - eta (G + mu (X - the model that the device received last)).",
        "that model: 1 array",
        "as without it",
        "no: devices stay closer together, and move more slowly",
        "Li et al., MLSys 2020",
        f"{OTHERS}MTGC's",
    ),
    "carry": Row(
        "X <- X - eta (G + Z); Z gathers what mixing and the server (S2S) take from a model, per "
        "step.",
        "Z: 1 array",
        "2E over links; K up; K down: as S2S",
        "yes, for every sample, on all problems tried; there is no proof",
        "Skerry; experimental. W should have no negative eigenvalue: network.mixing = lazy",
        "it is ours, with no proof",
        (AVERAGES, _set_to("server.primitive", "s2s", "none", why="S2A would move the average")),
        is_experimental=True,
    ),
}


ON_COMPRESSED_LINKS = ("sgd", "fedprox", "gradient_tracking")
"""Methods whose mixing keeps its laws where links carry compressed differences."""
WITH_COMPRESSED_SERVER = ("sgd", "fedprox")


def compression_faults(parts: Parts) -> Iterator[Fault]:
    """What of an experiment compression is not defined for."""
    network, server, name = parts.network, parts.server, parts.method.name
    # Under carry what sparse messages leave out comes back into the gradient, again and again.
    rounded = name == "carry" and network.compression == "int8"
    for section, compresses, defined in (
        (
            "network",
            network.compresses and network.gossip_steps and not rounded,
            ON_COMPRESSED_LINKS,
        ),
        ("server", server.compresses and server.is_there, WITH_COMPRESSED_SERVER),
    ):
        if compresses and name not in defined:
            fix = ", or take int8" if (section, name) == ("network", "carry") else ""
            yield (
                (f"{section}.compression", "method.name"),
                f"{section}.compression is not defined for method '{name}': its rule needs models "
                f"as they are. Leave {section}.compression out{fix}, or set method.name to one of "
                f"{', '.join(defined)}.",
            )
    if not (server.compresses and server.is_there):
        return
    if server.primitive not in labels.ON_THE_DIAL:
        yield (
            ("server.compression", "server.primitive"),
            "server.compression needs server.primitive = s2s, s2a or blend (got "
            f"{server.primitive!r}): both sides must know who received what. Leave "
            "server.compression out.",
        )
    if schedules.is_adaptive(server, *schedules.RANGES):
        yield (
            ("server.compression", *(f"server.{field}_schedule" for field in schedules.RANGES)),
            "server.compression needs schedules that do not go by the models (got an adaptive "
            "one): the server never sees them whole. Change one of them.",
        )


def faults(parts: Parts) -> Iterator[Fault]:
    """What of an experiment its method is not defined for."""
    yield from compression_faults(parts)
    if parts.method.is_plain:
        return
    row = METHODS.get(parts.method.name)
    for need in (ADAPTS_FIRST, COUNT_ALIKE, PLAIN_STEPS, NO_DECAY, *(row.needs if row else ())):
        yield from need(parts)
