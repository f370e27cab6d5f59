"""The sections of an experiment: every field that a user can type, with its default and meaning."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticKnownError

from skerry import dials, labels, registry
from skerry.errors import unknown
from skerry.measures import GROUPS, MEASURES, USUAL, own_name
from skerry.options import options_of
from skerry.section import Later, Named, Names, OptionOf, Section, Takes, usual
from skerry.tables import shown


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
Positive = Annotated[float, Field(gt=0), REAL]
Share = Annotated[float, Field(gt=0, le=1), REAL]
GRAPH_FILES = (".edgelist", ".edges", ".txt", ".csv", ".graphml")


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) or callable(value) else value


class _NamesTopology(Names):
    """A graph file will do, too."""

    def fault(self, name: str) -> str | None:
        fault = None if _is_graph_file(name) else super().fault(name)
        files = "" if ":" in name else f" A graph file ends in {', '.join(GRAPH_FILES)}."
        return fault and fault + files


class _NamesOrNone(Names):
    """Left empty, the task has its usual one."""

    def fault(self, name: str) -> str | None:
        return super().fault(name) if name else None


class _NamesOwnMeasure(Names):
    """Built-in ones stand in another field."""

    def fault(self, name: str) -> str | None:
        if ":" not in name:
            return (
                "evaluate.own takes measures of your own, as package.module:function (got "
                f"'{name}'). Built-in ones go into evaluate.measures."
            )
        if own_name(name) in {*GROUPS, *MEASURES, "round"}:
            return (
                f"measure '{name}' must not be called {own_name(name)}, as a built-in one is. "
                "Rename the function."
            )
        return super().fault(name)


def _named_apart(names: tuple[str, ...]) -> tuple[str, ...]:
    called = [own_name(name) for name in names]
    if twice := next((one for one in called if called.count(one) > 1), None):
        raise ValueError(
            f"evaluate.own has two measures that are called {twice}: records would mix them up. "
            "Rename one."
        )
    return names


def _is_graph_file(name: str) -> bool:
    return name.lower().endswith(GRAPH_FILES)


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
    edge_prob: Annotated[float, Field(gt=0, le=1), REAL, OptionOf("topology")] = 0.2
    """Probability of each link in erdos_renyi."""
    rewire_prob: Annotated[float, Field(ge=0, le=1), REAL, OptionOf("topology")] = 0.1
    """Probability that watts_strogatz moves a link."""
    dynamic: bool = False
    """Draw a fresh graph every round."""
    link_failure: Annotated[float, Field(ge=0, lt=1), REAL] = 0.0
    """Probability that a link is down in a round; W is recomputed from the links that are up."""
    gossip_steps: Annotated[int, Field(ge=0), WHOLE, Later()] = 1
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


class Data(Section, extra="allow"):
    """Which samples there are, and who holds them."""

    dataset: Annotated[Named, Names("dataset")] = usual("digits")
    """digits, synthetic, synthetic_regression, synthetic_tokens, mnist, fashion_mnist, cifar10,
    cifar100, npz, devices, vowels, speeches, or your own function."""
    path: Annotated[str, OptionOf("dataset")] = ""
    """Where the data set lies, if you have it already (required for npz and devices)."""
    split: Annotated[Literal["dealt", "given"], Later()] = "dealt"
    """How samples come to devices: dealt (by inter and intra), or given, as they lie there: the
    data say which device holds them."""
    inter: Annotated[Named, Names("inter partition")] = usual("non_iid")
    """Split across components: iid, non_iid (disjoint sets of classes), dirichlet."""
    intra: Annotated[Named, Names("intra partition")] = usual("iid")
    """Split inside a component: iid, dirichlet, shards."""
    alpha: Annotated[Positive, OptionOf("inter partition", "intra partition")] = 0.1
    """Concentration of dirichlet splits: small is very different, large is alike."""
    inter_alpha: Annotated[Positive | None, OptionOf("inter partition")] = None
    """Concentration of the inter split, where it differs from alpha."""
    shards: Annotated[Count, OptionOf("intra partition")] = 2
    """Shards of sorted labels per device for intra = "shards"."""
    min_samples: Count = 1
    """Fewest training samples a device may have."""
    scaling: Literal["standard", "unit", "raw"] = "standard"
    """standard: minus the training mean, over the standard deviation; unit: raw [0, 1]; raw: as
    they are, whole numbers as such (for embeddings). Tokens are always raw."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            dataset: str | Callable[..., Any] = "digits",
            path: str = "",
            split: Literal["dealt", "given"] = "dealt",
            inter: str | Callable[..., Any] = "non_iid",
            intra: str | Callable[..., Any] = "iid",
            alpha: float = 0.1,
            inter_alpha: float | None = None,
            shards: int = 2,
            min_samples: int = 1,
            scaling: Literal["standard", "unit", "raw"] = "standard",
            **options: Any,
        ) -> None:
            """Further arguments are options of the data set and of the split."""

    @property
    def functions(self) -> dict[str, str]:
        """What is given is not dealt."""
        return super().functions if self.split == "dealt" else {"dataset": self.dataset}

    def idle_fields(self) -> frozenset[str]:
        """`alpha` too, where inter_alpha takes its place and no device is dealt by it; with data
        that are given, all that says how to deal."""
        idle = super().idle_fields()
        if self.split == "given":
            return idle | {"inter", "intra", "alpha", "inter_alpha", "shards", "min_samples"}
        if self.inter != "dirichlet" or self.inter_alpha is None:
            return idle
        inside = registry.is_builtin("intra partition", self.intra)
        dealt_by_it = not inside or "alpha" in self.options_for("intra partition")
        return idle if dealt_by_it else idle | {"alpha"}


class Model(Section, extra="allow"):
    """What is learnt with. Further arguments are options of the model."""

    name: Annotated[Named, Names("model")] = usual("linear")
    """linear, mlp, cnn_cifar10, cnn_cifar100, gru, transformer, quadratic, or your own
    "package.module:factory"."""
    weights: Annotated[str, Later()] = ""
    """A .safetensors file to start from; empty: as drawn by the seed."""

    if TYPE_CHECKING:

        def __init__(
            self, *, name: str | Callable[..., Any] = "linear", weights: str = "", **options: Any
        ) -> None:
            """Further arguments are options of the model."""


class Task(Section, extra="allow"):
    """What is learnt: classes, numbers, or the next token of a text."""

    name: Annotated[Literal["auto", "classification", "regression", "tokens"], Later()] = "auto"
    """What is learnt: classification (labels), regression (numbers), tokens (the next token of a
    text); auto: as the targets of the data say."""
    loss: Annotated[Named, _NamesOrNone("loss"), Later()] = usual("")
    """What goes down: cross_entropy, mse, mae, huber, or your own "package.module:function";
    empty: cross_entropy, for a regression mse."""
    delta: Annotated[Positive, OptionOf("loss"), Later()] = 1.0
    """huber: where the loss turns from a square into a line."""
    score: Annotated[Named, _NamesOrNone("score"), Later()] = usual("")
    """A further measure, higher is better: top5, or your own "package.module:function"."""

    @property
    def functions(self) -> dict[str, str]:
        """An empty name is none."""
        return {kind: name for kind, name in super().functions.items() if name}

    def idle_fields(self) -> frozenset[str]:
        """`delta`, where no loss is named that takes it."""
        takes = "loss" in self.functions and (
            not registry.is_builtin("loss", self.loss) or "delta" in self.options_for("loss")
        )
        return frozenset() if takes else frozenset({"delta"})


class Training(Section, extra="allow"):
    """What a device does on its own in a round."""

    batch: Count = 128
    """Samples in a minibatch."""
    stepsize: Positive = 0.1
    """Stepsize of local SGD (eta)."""
    schedule: Annotated[Named, Names("schedule")] = usual("constant")
    """How the stepsize changes over the rounds: constant, step, cosine, inverse_sqrt."""
    decay_every: Annotated[Count, OptionOf("schedule")] = 30
    """Rounds between the drops of the step schedule."""
    decay_factor: Annotated[float, Field(gt=0, le=1), REAL, OptionOf("schedule")] = 0.1
    """Factor of each drop of the step schedule."""
    local_steps: Count = 1
    """SGD steps on every device between two mixings."""
    order: Annotated[Literal["adapt_then_mix", "mix_then_adapt"], Later()] = "adapt_then_mix"
    """adapt_then_mix: W (X - eta G(X)); mix_then_adapt: W X - eta G(X)."""
    weights: Annotated[Literal["equal", "data"], Later()] = "equal"
    """How devices count: equal, or by their data: the stepsize of each is multiplied by its share
    of all samples times the number of devices, so that the data-weighted loss goes down."""
    optimizer: Annotated[Named, Names("local optimizer"), Later()] = usual("sgd")
    """What devices make of their gradients: sgd (nothing), momentum, adam, or your own
    "package.module:function". What it keeps stays on the device."""
    momentum: Annotated[float, Field(ge=0, lt=1), REAL, OptionOf("local optimizer"), Later()] = 0.9
    """momentum and adam: how much of the earlier gradients stays."""
    second_momentum: Annotated[
        float, Field(ge=0, lt=1), REAL, OptionOf("local optimizer"), Later()
    ] = 0.999
    """adam: how much of the earlier squares stays."""
    smallest: Annotated[Positive, OptionOf("local optimizer"), Later()] = 1e-8
    """adam: added to the root of the squares."""
    weight_decay: Annotated[float, Field(ge=0), REAL, Later()] = 0.0
    """So many times the model is added to every gradient."""
    sampling: Annotated[Named, Names("sampling")] = usual("replacement")
    """Minibatches: drawn with replacement, or shuffled epochs."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of the products in a step on a GPU: exact, or rounded for speed. Weights are float32."""

    def fields_of_a_lane(self) -> set[str]:
        """What lanes of one stack may differ in: the stepsize, its schedule and what that is told.
        Only a user's own sampling, which lanes share, might be told the further options too."""
        further = self.options if registry.is_builtin("sampling", self.sampling) else ()
        own = ("stepsize", "schedule", "order", "weights", "optimizer", "weight_decay")
        declared = ("schedule", "local optimizer")
        return {*own, *(o for kind in declared for o in self.options_declared(kind)), *further}

    @property
    def is_plain(self) -> bool:
        """Whether devices step along their gradients."""
        return self.optimizer == "sgd" and not self.weight_decay


SCHEDULES = ("beta schedule", "sampled schedule", "period schedule")


class Server(Section, extra="allow"):
    """What the server does, when, and for whom."""

    name: str = ""
    """What it is called beside others, such as the name of a preset; it does not change the
    result. Without one: the primitive."""
    primitive: Annotated[Named, Names("primitive")] = usual("s2s")
    """Who receives the average: s2s (the sampled), s2a (all), blend (all, in part), none."""
    beta: Annotated[float, Field(ge=0, le=1), REAL, OptionOf("primitive")] = 0.5
    """blend: how far an unsampled device moves to the average (0 is s2s, 1 is s2a)."""
    sampled: Count = 20
    """Devices the server samples (K)."""
    period: Count = 5
    """Rounds between two server rounds (H)."""
    offset: Annotated[int, Field(ge=0, le=LARGEST), WHOLE] = 0
    """The first server round; they are the rounds t >= offset with (t - offset) mod period = 0."""
    selection: Annotated[Named, Names("selection"), Later()] = usual("uniform")
    """Whom the server samples: uniform, per_component (every island in proportion), one_each (as
    many of every island), bernoulli, round_robin, weighted (by data), importance, or your own."""
    sample_prob: Annotated[float, Field(gt=0, le=1), REAL, OptionOf("selection")] = 0.2
    """Chance of each device with selection = "bernoulli"."""
    weights: Annotated[Literal["equal", "stratified", "data"], Later()] = "equal"
    """How the sampled count in what S2A delivers: equal (as the selection wants it), stratified
    (islands by their size), data (devices by their samples, as FedAvg has it)."""
    optimizer: Annotated[Named, Names("server optimizer")] = usual("fedavg")
    """What the server does with the average: fedavg delivers it, fedavgm adds momentum against the
    model delivered last, fedavgm_averages against the average before; fedadam, fedyogi."""
    momentum: Annotated[float, Field(ge=0, lt=1), REAL, OptionOf("server optimizer")] = 0.9
    """Momentum of fedavgm, fedavgm_averages, fedadam and fedyogi."""
    learning_rate: Annotated[Positive | None, OptionOf("server optimizer"), Later()] = None
    """How far these go along their momentum; unset: 1, for fedadam and fedyogi 0.1."""
    dampening: Annotated[float, Field(ge=0, lt=1), REAL, OptionOf("server optimizer"), Later()] = (
        0.0
    )
    """fedavgm: the part of a new move that momentum leaves out."""
    second_momentum: Annotated[
        float, Field(ge=0, lt=1), REAL, OptionOf("server optimizer"), Later()
    ] = 0.99
    """fedadam and fedyogi: momentum of the squares."""
    smallest: Annotated[Positive, OptionOf("server optimizer"), Later()] = 0.001
    """fedadam and fedyogi: added to the root of the squares (tau)."""
    compression: Annotated[Named, Names("compression"), Later()] = usual("none")
    """What of a difference goes to and from the server: none (a model goes as it is), top_k (the
    largest numbers), random_k, int8 (every number in a byte), or your own class."""
    compression_share: Annotated[Share, OptionOf("compression"), Later()] = 0.1
    """The part of the numbers that top_k and random_k send."""
    compressed: Annotated[Literal["both", "up", "down"], Later()] = "both"
    """Which way is compressed: up, to the server; down, from it; or both."""
    error_feedback: Annotated[bool, Later()] = True
    """Whether what a compressed message left out is remembered, and sent later."""
    beta_schedule: Annotated[Named, Names("beta schedule"), Later()] = usual("constant")
    """How beta changes over the run: constant, cosine, inverse_sqrt, step, switch, double,
    adaptive, or your own."""
    beta_end: Annotated[Annotated[float, Field(ge=0, le=1), REAL] | None, Later()] = None
    """Where beta ends, with a schedule."""
    sampled_schedule: Annotated[Named, Names("sampled schedule"), Later()] = usual("constant")
    """How the number of sampled devices changes; the same names."""
    sampled_end: Annotated[Count | None, Later()] = None
    """Where it ends."""
    period_schedule: Annotated[Named, Names("period schedule"), Later()] = usual("constant")
    """How the period changes; the same names."""
    period_end: Annotated[Count | None, Later()] = None
    """Where it ends."""
    switch_round: Annotated[
        Annotated[int, Field(ge=0, le=LARGEST), WHOLE] | None, OptionOf(*SCHEDULES), Later()
    ] = None
    """The first round in which a switch schedule is at its end."""
    change_every: Annotated[Count, OptionOf(*SCHEDULES), Later()] = 30
    """Rounds between two changes of a step or double schedule."""
    bias_cost: Annotated[Positive, OptionOf("beta schedule"), Later()] = 8.0
    """Adaptive beta: what a move of the average costs against disagreement (lambda). Between 1.6
    and 8, over stepsize times period, was best on quadratics."""
    sampled_target: Annotated[Positive | None, OptionOf("sampled schedule"), Later()] = None
    """Adaptive K: the bias (per device) that S2A may have; as many are sampled as that takes."""
    period_target: Annotated[Positive | None, OptionOf("period schedule"), Later()] = None
    """Adaptive H: the disagreement between islands (per device) at which the server comes."""
    adapt_over: Annotated[Count, OptionOf(*SCHEDULES), Later()] = 5
    """Adaptive schedules: the server rounds whose estimates are averaged."""

    def idle_fields(self) -> frozenset[str]:
        """Its name; ends that no schedule goes to; the schedule of a beta that plays no part.
        Without a server all but the primitive, which says so."""
        if not self.is_there:
            return frozenset(name for name, _ in self if name != "primitive")
        idle = super().idle_fields() | (
            set() if self.compresses else {"compressed", "error_feedback"}
        )
        if "beta" in idle and dials.moves(self, "beta"):
            idle = self.model_copy(update={"beta_schedule": dials.CONSTANT}).idle_fields()
        moot = {"name"} | ({"beta_schedule", "beta_end"} if "beta" in idle else set())
        return idle.union(moot, dials.idle_ends(self))

    @property
    def label(self) -> str:
        """How a run is called beside others: by its name, or by its primitive, with the dial's
        position."""
        if self.name:
            return self.name
        if self.primitive == labels.BLEND and dials.moves(self, "beta"):
            return f"{labels.BLEND} {dials.in_words(self)}"
        return labels.write(self.primitive, self.beta)

    @property
    def dial(self) -> float | None:
        """Where the primitive stands between S2S, at 0, and S2A, at 1; None if it is neither, or
        does not stand still."""
        moves = self.primitive == labels.BLEND and dials.moves(self, "beta")
        return None if moves else labels.dial(self.primitive, self.beta)

    @property
    def compresses(self) -> bool:
        return self.compression != "none"

    @property
    def is_there(self) -> bool:
        return self.primitive != labels.NO_SERVER

    def server_rounds(self, rounds: int) -> Sequence[int]:
        """Of so many rounds, those in which it meets devices: offset, offset + H, ..."""
        if not self.is_there:
            return range(0)
        if dials.moves(self, "period"):
            return dials.server_rounds(self, rounds)
        return range(self.offset, rounds, self.period)

    def known_rounds(self, rounds: int) -> Sequence[int]:
        """Those of them that are known without a user's own schedule: records may be read where it
        is not at hand."""
        own = self.is_there and ":" in self.period_schedule
        return range(self.offset, rounds)[:1] if own else self.server_rounds(rounds)

    def meets(self, t: int, rounds: int) -> bool:
        """Whether round t, of so many, is a server round."""
        return t in self.server_rounds(rounds)

    def at(self, t: int, rounds: int) -> "Server":
        """As it stands in round t, of so many: with the beta and K that its schedules give."""
        return dials.at(self, t, rounds)


class Fleet(Section):
    """Who is awake."""

    awake: Annotated[
        Annotated[float, Field(ge=0, le=1), REAL]
        | tuple[Annotated[float, Field(ge=0, le=1), REAL], ...]
        | str,
        Later(),
    ] = 1.0
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

    @property
    def sleeps(self) -> bool:
        """Whether anybody ever may."""
        return self.awake != 1.0 or self.on is not None


class Method(Section, extra="allow"):
    """What devices and the server keep beside a model."""

    name: Annotated[Named, Names("method"), Later()] = usual("sgd")
    """What devices do beside plain SGD: sgd (nothing), gradient_tracking, sd_gt, mtgc, scaffold,
    fedvarp, mifa, fedprox, carry, or your own "package.module:Class"."""
    mu: Annotated[float, Field(ge=0), REAL, OptionOf("method"), Later()] = 0.01
    """fedprox: how strongly a device is pulled back to the model it received last."""
    tracker: Annotated[Literal["s2s", "s2a", "home"], OptionOf("method"), Later()] = "s2s"
    """gradient_tracking: how Y goes to the server. Only s2s keeps its mean; s2a and home, which
    leaves it on the devices, are there to see what that is worth."""

    @property
    def is_plain(self) -> bool:
        return self.name == "sgd"


class Evaluate(Section):
    """What is measured, and how often."""

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
        Takes[str | Sequence[str], tuple[Annotated[str, AfterValidator(_measure)], ...]],
        BeforeValidator(_one_or_many),
        Field(min_length=1),
    ] = usual(USUAL)
    """What is measured: single names such as own_accuracy, or whole groups."""

    own: Annotated[
        Takes[
            str | Callable[..., Any] | Sequence[str | Callable[..., Any]],
            tuple[Annotated[str, _NamesOwnMeasure("measure")], ...],
        ],
        BeforeValidator(_one_or_many),
        AfterValidator(_named_apart),
        Later(),
    ] = usual(())
    """Measures of your own beside them: "package.module:function"."""

    @property
    def wanted(self) -> frozenset[str]:
        """The single measures asked for."""
        built_in = (one for name in self.measures for one in GROUPS.get(name, (name,)))
        return frozenset([*built_in, *map(own_name, self.own)])
