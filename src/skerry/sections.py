"""The sections of an experiment: every field that a user can type, with its default and meaning."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticKnownError

from skerry import labels, registry
from skerry.errors import ExperimentError, did_you_mean, unknown
from skerry.explain import explain
from skerry.measures import GROUPS, MEASURES
from skerry.tables import shown

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


def _no_truth(rule: Literal["int_type", "float_type"]) -> BeforeValidator:
    """Python counts true as 1; where a number belongs it is a mistake."""

    def check(value: Any) -> Any:
        if isinstance(value, bool):
            raise PydanticKnownError(rule)
        return value

    return BeforeValidator(check)


WHOLE, REAL = _no_truth("int_type"), _no_truth("float_type")
LARGEST = 10**9
"""Of any count: what is larger is a slip, and would end in an array of no possible size."""
MOST_DEVICES = 10**6
AtLeastOne = Annotated[int, Field(ge=1), WHOLE]
Count = Annotated[AtLeastOne, Field(le=LARGEST)]
GRAPH_FILES = (".edgelist", ".edges", ".txt", ".csv", ".graphml")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _named(kind: str) -> AfterValidator:
    """A field that holds a built-in name of this kind or a user's `package.module:name`."""

    def check(name: str) -> str:
        if fault := registry.name_fault(kind, name):
            raise ValueError(fault)
        return name

    return AfterValidator(check)


def _topology(name: str) -> str:
    if not name.lower().endswith(GRAPH_FILES) and (fault := registry.name_fault("topology", name)):
        files = "" if ":" in name else f" A graph file ends in {', '.join(GRAPH_FILES)}."
        raise ValueError(fault + files)
    return name


def _measure(name: str) -> str:
    available = [*GROUPS, *MEASURES]
    if name not in available:
        raise ValueError(unknown("measure", name, available))
    return name


def _count_or_sizes(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError(
            "network.components must be a whole number of at least 1, or a list of such sizes "
            f"(got {shown(value)})."
        ) from None


class _Explained(ModelMetaclass):
    """Building a section from Python explains its faults as a file's are explained."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except ValidationError as error:
            fields: dict[str, Any] = cls.model_fields  # type: ignore[attr-defined]
            raise ExperimentError(*explain(error, {"": list(fields)}, owner=cls.__name__)) from None


class Section(BaseModel, metaclass=_Explained):
    """A frozen table of an experiment; unknown fields are faults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class _WithOptions(Section):
    """A section that names a function; fields beyond its own are that function's options."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    def _option_faults(self, section: str, kind: str, name: str) -> Iterable[str]:
        """One line for every option that the named function does not take, or lacks."""
        if registry.is_builtin(kind, name) and not self.options:
            return  # a built-in is imported only where there is something to check
        known = registry.options_of(kind, name)
        for option in known.required:
            if option not in self.options:
                yield f"{kind} '{name}' needs the option '{option}'. Set {section}.{option}."
        if known.takes_any:
            return
        fields = list(type(self).model_fields)
        adds = f"adds: {', '.join(known.names)}" if known.names else "adds none"
        for option in self.options:
            if option not in known.names:
                hint = did_you_mean(option, [*known.names, *fields])
                yield (
                    f"unknown field '{section}.{option}'{hint} [{section}] takes: "
                    f"{', '.join(fields)}; {kind} '{name}' {adds}."
                )


class Network(Section):
    devices: Annotated[AtLeastOne, Field(le=MOST_DEVICES)] = 100
    """How many devices there are (n)."""
    components: Annotated[
        AtLeastOne | Annotated[tuple[AtLeastOne, ...], Field(min_length=1)],
        WrapValidator(_count_or_sizes),
    ] = 2
    """How many islands (C), or the list of their sizes."""
    topology: Annotated[str, AfterValidator(_topology)] = "ring"
    """How devices are linked inside a component: a name, a graph file (edge list or GraphML),
    or your own "package.module:function"."""
    degree: Count = 4
    """Links per device in regular and watts_strogatz; about as many in barabasi_albert."""
    edge_prob: Annotated[float, Field(gt=0, le=1), REAL] = 0.2
    """Probability of each link in erdos_renyi."""
    rewire_prob: Annotated[float, Field(ge=0, le=1), REAL] = 0.1
    """Probability that watts_strogatz moves a link."""
    dynamic: bool = False
    """Draw a fresh graph every round."""
    link_failure: Annotated[float, Field(ge=0, lt=1), REAL] = 0.0
    """Probability that a link is down in a round; W is recomputed from the links that are up."""
    mixing: Annotated[str, _named("mixing")] = "metropolis"
    """Weights of W: metropolis, max_degree, laplacian, lazy, or your own function."""

    @property
    def is_file(self) -> bool:
        return self.topology.lower().endswith(GRAPH_FILES)

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

    def size_faults(self) -> Iterable[tuple[tuple[str, ...], str]]:
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
        smallest = min(self.sizes)
        needs_degree = ("regular", "watts_strogatz", "barabasi_albert")
        if self.topology in needs_degree and self.degree >= smallest:
            yield (
                fields,
                f"network.degree must be below the size of every component (got {self.degree} "
                f"with a component of {smallest}). Lower network.degree.",
            )
        odd = next((size for size in self.sizes if size * self.degree % 2), None)
        if self.topology == "regular" and odd:
            yield (
                fields,
                "network.degree times a component's size must be even for a regular graph (got "
                f"{self.degree} x {odd}). Change network.degree by one.",
            )


class Data(_WithOptions):
    dataset: Annotated[str, _named("dataset")] = "digits"
    """digits, synthetic, mnist, fashion_mnist, cifar10, cifar100, npz, or your own function."""
    path: str = ""
    """Where the data set lies, if you have it already (required for npz)."""
    inter: Annotated[str, _named("inter partition")] = "non_iid"
    """Split across components: iid, non_iid (disjoint sets of classes), dirichlet."""
    intra: Annotated[str, _named("intra partition")] = "iid"
    """Split inside a component: iid, dirichlet, shards."""
    alpha: Annotated[float, Field(gt=0), REAL] = 0.1
    """Concentration of dirichlet splits: small is very different, large is alike."""
    inter_alpha: Annotated[float, Field(gt=0), REAL] | None = None
    """Concentration of the inter split, where it differs from alpha."""
    shards: Count = 2
    """Shards of sorted labels per device for intra = "shards"."""
    min_samples: Count = 1
    """Fewest training samples a device may have."""
    scaling: Literal["standard", "unit"] = "standard"
    """standard: minus the training mean, over the standard deviation; unit: raw [0, 1]."""

    def option_faults(self) -> Iterable[str]:
        return self._option_faults("data", "dataset", self.dataset)


class Model(_WithOptions):
    name: Annotated[str, _named("model")] = "linear"
    """linear, mlp, cnn_cifar10, cnn_cifar100, quadratic, or your own "package.module:factory"."""

    def option_faults(self) -> Iterable[str]:
        return self._option_faults("model", "model", self.name)


class Training(Section):
    batch: Count = 128
    """Samples in a minibatch."""
    stepsize: Annotated[float, Field(gt=0), REAL] = 0.1
    """Stepsize of local SGD (eta)."""
    schedule: Annotated[str, _named("schedule")] = "constant"
    """How the stepsize changes over the rounds: constant, step, cosine, inverse_sqrt."""
    decay_every: Count = 30
    """Rounds between the drops of the step schedule."""
    decay_factor: Annotated[float, Field(gt=0, le=1), REAL] = 0.1
    """Factor of each drop of the step schedule."""
    local_steps: Count = 1
    """SGD steps on every device between two mixings."""
    sampling: Annotated[str, _named("sampling")] = "replacement"
    """Minibatches: drawn with replacement, or shuffled epochs."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of the products in a step on a GPU: exact, or rounded for speed. Weights are float32."""


class Server(Section):
    primitive: Annotated[str, _named("primitive")] = "s2s"
    """Who receives the average: s2s (the sampled), s2a (all), blend (all, in part), none."""
    beta: Annotated[float, Field(ge=0, le=1), REAL] = 0.5
    """blend: how far an unsampled device moves to the average (0 is s2s, 1 is s2a)."""
    sampled: Count = 20
    """Devices the server samples (K)."""
    period: Count = 5
    """Rounds between two server rounds (H)."""
    offset: Annotated[int, Field(ge=0, le=LARGEST), WHOLE] = 0
    """The first server round; they are the rounds t >= offset with (t - offset) mod period = 0."""
    optimizer: Annotated[str, _named("server optimizer")] = "fedavg"
    """What the server does with the average: fedavg delivers it, fedavgm adds momentum."""
    momentum: Annotated[float, Field(ge=0, lt=1), REAL] = 0.9
    """Momentum of fedavgm."""

    @property
    def label(self) -> str:
        """How a run is called beside others: its primitive, with the dial's position."""
        return labels.write(self.primitive, self.beta)

    @property
    def dial(self) -> float | None:
        """Where the primitive stands between S2S, at 0, and S2A, at 1; None if it is neither."""
        return labels.dial(self.primitive, self.beta)

    @property
    def is_there(self) -> bool:
        return self.primitive != labels.NO_SERVER

    def server_rounds(self, rounds: int) -> range:
        """The rounds t < `rounds` in which it meets devices: offset, offset + H, ..."""
        return range(self.offset, rounds, self.period) if self.is_there else range(0)

    def meets(self, t: int) -> bool:
        """Whether round t is a server round."""
        return t in self.server_rounds(t + 1)


class Evaluate(Section):
    every: Count = 1
    """Rounds between two evaluations (the last round is always evaluated)."""
    after: Annotated[int, Field(ge=0, le=LARGEST), WHOLE] = 0
    """Rounds before the first evaluation, besides the start: 80 looks at the last of 100 only."""
    devices_every: Count = 1
    """All devices are scored only in rounds that this divides (and in the last): it is what takes
    longest."""
    device_samples: Count | None = None
    """Score devices on so many test samples only, drawn once for each seed with every class in its
    share; the average model is always scored on all."""
    measures: Annotated[
        tuple[Annotated[str, AfterValidator(_measure)], ...],
        BeforeValidator(_one_or_many),
        Field(min_length=1),
    ] = tuple(GROUPS)
    """What is measured: single names such as own_accuracy, or whole groups."""

    @property
    def wanted(self) -> frozenset[str]:
        """The single measures asked for."""
        return frozenset(one for name in self.measures for one in GROUPS.get(name, (name,)))
