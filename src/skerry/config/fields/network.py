"""The sections [network] and [availability]: devices, islands, links, and who is awake when."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from skerry.config.section import (
    AtLeastOne,
    AtLeastZero,
    BelowOne,
    Count,
    Fault,
    Named,
    Names,
    OptionOf,
    Section,
    Share,
    Takes,
    UpToOne,
    default,
)
from skerry.config.toml import GRAPH_FILES, is_graph_file, show_value
from skerry.files import written
from skerry.plugins import registry
from skerry.plugins.options import options_of

MOST_DEVICES = 10**6


class _NamesTopology(Names):
    """A topology by name, or a graph file."""

    def fault(self, name: str) -> str | None:
        fault = None if is_graph_file(name) else super().fault(name)
        files = "" if ":" in name else f" A graph file ends in {', '.join(GRAPH_FILES)}."
        return fault and fault + files


def _count_or_sizes(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError(
            "network.components must be a whole number of at least 1, or a list of such sizes "
            f"(got {show_value(value)})."
        ) from None


class Network(Section, extra="allow"):
    """The network: devices, islands, links between devices, and the weights on them."""

    devices: Annotated[AtLeastOne, Field(le=MOST_DEVICES)] = 100
    """How many devices there are (n)."""
    components: Annotated[
        Takes[
            int | Sequence[int], AtLeastOne | Annotated[tuple[AtLeastOne, ...], Field(min_length=1)]
        ],
        WrapValidator(_count_or_sizes),
    ] = default(2)
    """How many islands (C), or the list of their sizes."""
    topology: Annotated[Named, _NamesTopology("topology")] = default("ring")
    """How devices of an island are linked: a name, a graph file (edge list or GraphML,
    found as data.path is), or your own "package.module:function"."""
    degree: Annotated[Count, OptionOf("topology")] = 4
    """Links per device in regular and watts_strogatz; about as many in barabasi_albert."""
    edge_prob: Annotated[Share, OptionOf("topology")] = 0.2
    """Probability of each link in erdos_renyi."""
    rewire_prob: Annotated[UpToOne, OptionOf("topology")] = 0.1
    """Probability that watts_strogatz moves a link."""
    dynamic: bool = False
    """Whether a new graph is drawn every round."""
    link_failure: BelowOne = 0.0
    """Probability that a link is down in a round; W is recomputed from the links that are up."""
    gossip_steps: AtLeastZero = 1
    """Mixing steps in a round; 0: links are not used."""
    mix_with_server: bool = True
    """Whether devices also mix in server rounds, before the server averages."""
    mixing: Annotated[Named, Names("mixing")] = default("metropolis")
    """Weights of W: metropolis, max_degree, laplacian, lazy, or your own function."""
    compression: Annotated[Named, Names("compression")] = default("none")
    """Compression of messages over links: none (whole models), top_k (the largest numbers of a
    difference), random_k, int8 (every number in a byte), or your own class."""
    compression_share: Annotated[Share, OptionOf("compression")] = 0.1
    """The share of the numbers that top_k and random_k send."""
    consensus_stepsize: Share | None = None
    """Consensus stepsize (gamma) of compressed mixing; unset: compression_share with top_k and
    random_k, 1 with int8."""

    @property
    def is_file(self) -> bool:
        """Whether the topology is a graph file."""
        return is_graph_file(self.topology)

    @property
    def functions(self) -> dict[str, str]:
        """The functions that are named; a graph file is not one."""
        named = super().functions
        return {k: name for k, name in named.items() if k != "topology" or not self.is_file}

    def unused_fields(self) -> frozenset[str]:
        """Also `devices`, which follows from the sizes of the islands; with a graph file the sizes,
        too; without compression the consensus stepsize."""
        unused = {"devices", "components"} if self.is_file else {"devices"}
        if not self.compresses:
            unused.add("consensus_stepsize")
        return super().unused_fields() | unused

    @property
    def compresses(self) -> bool:
        """Whether messages over links are compressed."""
        return self.compression != "none"

    def takes_from_file(self, field: str) -> bool:
        """Whether the value of this field comes from the graph file."""
        return self.is_file and field in {"devices", "components"} - self.model_fields_set

    @property
    def sizes(self) -> tuple[int, ...]:
        """Devices on each island: as given, or as equal as possible."""
        if isinstance(self.components, tuple):
            return self.components
        small, larger = divmod(self.devices, self.components)
        return tuple(small + (c < larger) for c in range(self.components))

    def faults(self) -> Iterable[Fault]:
        """Broken rules, except those about sizes, which a graph file or the data may set."""
        if self.is_file and self.dynamic:
            yield (
                ("network.topology", "network.dynamic"),
                "network.dynamic = true needs a topology to draw from (got the graph file "
                f"{written(self.topology)}). Set network.dynamic = false; "
                "network.link_failure makes a given graph vary.",
            )

    def size_faults(self) -> Iterable[Fault]:
        """Broken rules about the sizes of islands, if no graph file sets them."""
        fields: tuple[str, ...] = ("network.devices", "network.components")
        if isinstance(self.components, int):
            if self.components > self.devices:
                yield (
                    fields,
                    "network.components must be at most network.devices (got "
                    f"{self.components} islands for {self.devices} devices). Lower "
                    "network.components.",
                )
                return
        elif sum(self.components) != self.devices:
            yield (
                fields,
                "network.components must add up to network.devices (got "
                f"{sum(self.components)} of {self.devices} devices). Change the sizes or "
                "network.devices.",
            )
        fields = (*fields, "network.topology", "network.degree")
        yield from ((fields, line) for line in self.degree_faults(self.sizes))

    def degree_faults(self, sizes: Sequence[int]) -> Iterator[str]:
        """Messages about degrees that built-in topologies cannot have on islands of these sizes."""
        name, degree = self.topology, self.degree
        if not registry.is_builtin("topology", name):
            return
        smallest = min(sizes)
        if options_of("topology", name).takes("degree") and degree >= smallest:
            yield (
                f"network.degree must be below the size of every island (got {degree} "
                f"with an island of {smallest}). Lower network.degree."
            )
        odd = next((size for size in sizes if size * degree % 2), None)
        if name == "regular" and odd:
            yield (
                "network.degree times an island's size must be even for a regular graph (got "
                f"{degree} x {odd}). Change network.degree by one."
            )


class Availability(Section):
    """When devices are awake, and whether asleep ones receive models."""

    awake: UpToOne | tuple[UpToOne, ...] | str = 1.0
    """Probability that a device is awake in a round: one number, a list with one for each device,
    or a trace file (CSV: device, from, to; a relative path is as in data.path). A sleeping device
    does not train or mix and is not sampled."""
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
        always = set(self.awake) == {1.0} if isinstance(self.awake, tuple) else self.awake == 1.0
        return not always or self.on is not None
