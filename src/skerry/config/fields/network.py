"""The section [network]."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from skerry.config.fields.numbers import AtLeastOne, AtLeastZero, BelowOne, Count, Share, UpToOne
from skerry.config.section import Fault, Later, Named, Names, OptionOf, Section, Takes, usual
from skerry.config.toml import shown
from skerry.plugins import registry
from skerry.plugins.options import options_of

MOST_DEVICES = 10**6
GRAPH_FILES = (".edgelist", ".edges", ".txt", ".csv", ".graphml")


def _is_graph_file(name: str) -> bool:
    return name.lower().endswith(GRAPH_FILES)


class _NamesTopology(Names):
    """A graph file will do, too."""

    def fault(self, name: str) -> str | None:
        fault = None if _is_graph_file(name) else super().fault(name)
        files = "" if ":" in name else f" A graph file ends in {', '.join(GRAPH_FILES)}."
        return fault and fault + files


def _count_or_sizes(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError(
            "network.components must be a whole number of at least 1, or a list of such sizes "
            f"(got {shown(value)})."
        ) from None


class Network(Section, extra="allow"):
    """Who can talk to whom: devices, islands, links, and the weights on them."""

    devices: Annotated[AtLeastOne, Field(le=MOST_DEVICES)] = 100
    """How many devices there are (n)."""
    components: Annotated[
        Takes[
            int | Sequence[int], AtLeastOne | Annotated[tuple[AtLeastOne, ...], Field(min_length=1)]
        ],
        WrapValidator(_count_or_sizes),
    ] = usual(2)
    """How many islands (C), or the list of their sizes."""
    topology: Annotated[Named, _NamesTopology("topology")] = usual("ring")
    """How devices are linked inside a component: a name, a graph file (edge list or GraphML),
    or your own "package.module:function"."""
    degree: Annotated[Count, OptionOf("topology")] = 4
    """Links per device in regular and watts_strogatz; about as many in barabasi_albert."""
    edge_prob: Annotated[Share, OptionOf("topology")] = 0.2
    """Probability of each link in erdos_renyi."""
    rewire_prob: Annotated[UpToOne, OptionOf("topology")] = 0.1
    """Probability that watts_strogatz moves a link."""
    dynamic: bool = False
    """Draw a fresh graph every round."""
    link_failure: BelowOne = 0.0
    """Probability that a link is down in a round; W is recomputed from the links that are up."""
    gossip_steps: Annotated[AtLeastZero, Later()] = 1
    """Mixings in a round, one after the other; 0: links are not used."""
    mix_with_server: Annotated[bool, Later()] = True
    """Whether devices mix in server rounds, too, before the server acts."""
    mixing: Annotated[Named, Names("mixing")] = usual("metropolis")
    """Weights of W: metropolis, max_degree, laplacian, lazy, or your own function."""
    compression: Annotated[Named, Names("compression"), Later()] = usual("none")
    """What of a difference goes over a link: none (a model goes as it is), top_k (the largest
    numbers), random_k, int8 (every number in a byte), or your own class."""
    compression_share: Annotated[Share, OptionOf("compression"), Later()] = 0.1
    """The part of the numbers that top_k and random_k send."""
    consensus_stepsize: Annotated[Share | None, Later()] = None
    """How far a device then goes towards its neighbours (gamma); unset: compression_share with
    top_k and random_k, 1 with int8."""

    @property
    def is_file(self) -> bool:
        return _is_graph_file(self.topology)

    @property
    def functions(self) -> dict[str, str]:
        """A graph file is none."""
        named = super().functions
        return {k: name for k, name in named.items() if k != "topology" or not self.is_file}

    def idle_fields(self) -> frozenset[str]:
        """`devices` too, which the sizes of the components say; with a graph file also those,
        which the file says; how far a device goes, where links are not compressed."""
        told = {"devices", "components"} if self.is_file else {"devices"}
        return super().idle_fields() | told | (set() if self.compresses else {"consensus_stepsize"})

    @property
    def compresses(self) -> bool:
        return self.compression != "none"

    def takes_from_file(self, field: str) -> bool:
        """Whether the graph file, not the experiment, says what this field is."""
        return self.is_file and field in {"devices", "components"} - self.model_fields_set

    @property
    def sizes(self) -> tuple[int, ...]:
        """Devices in each component: as given, or as equal as possible."""
        if isinstance(self.components, tuple):
            return self.components
        small, larger = divmod(self.devices, self.components)
        return tuple(small + (c < larger) for c in range(self.components))

    def faults(self) -> Iterable[Fault]:
        """But for those on sizes, which a graph file or the data may say."""
        if self.is_file and self.dynamic:
            yield (
                ("network.topology", "network.dynamic"),
                "network.dynamic = true needs a topology to draw from (got the graph file "
                f"{self.topology}). Set network.dynamic = false; network.link_failure makes "
                "a given graph vary.",
            )

    def size_faults(self) -> Iterable[Fault]:
        """Rules on the sizes of components; no graph file says them here."""
        fields: tuple[str, ...] = ("network.devices", "network.components")
        if isinstance(self.components, int):
            if self.components > self.devices:
                yield (
                    fields,
                    "network.components must be at most network.devices (got "
                    f"{self.components} components for {self.devices} devices). Lower "
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
        """Degrees that the built-in topologies cannot draw in components of these sizes."""
        name, degree = self.topology, self.degree
        if not registry.is_builtin("topology", name):
            return
        smallest = min(sizes)
        if options_of("topology", name).takes("degree") and degree >= smallest:
            yield (
                f"network.degree must be below the size of every component (got {degree} "
                f"with a component of {smallest}). Lower network.degree."
            )
        odd = next((size for size in sizes if size * degree % 2), None)
        if name == "regular" and odd:
            yield (
                "network.degree times a component's size must be even for a regular graph (got "
                f"{degree} x {odd}). Change network.degree by one."
            )
