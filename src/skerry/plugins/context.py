"""The context that every plug-in with a parameter `context` receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

from skerry.errors import SkerryError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray
    from scipy import sparse
    from torch import Tensor

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Parameter:
    """One parameter tensor of a model, and where its numbers are in a flat vector."""

    name: str
    """As in `module.named_parameters()`."""
    shape: tuple[int, ...]
    start: int
    """Place of its first number."""
    strides: tuple[int, ...]
    """Distance in the flat vector between neighbours along each dimension."""

    def of(self, vectors: Tensor) -> Tensor:
        """View of this parameter in flat vectors, `[..., d]` -> `[..., *shape]`."""
        unit = vectors.stride(-1)
        strides = (*vectors.stride()[:-1], *(stride * unit for stride in self.strides))
        shape = (*vectors.shape[:-1], *self.shape)
        return vectors.as_strided(shape, strides, vectors.storage_offset() + self.start * unit)


@dataclass(frozen=True)
class SpreadEstimate:
    """Estimates of the spread of all n models from the K sampled ones, in one server round before
    the server acts. All squared distances are per device."""

    sizes: tuple[int, ...]
    """Devices awake on each island."""
    counts: tuple[int, ...]
    """Sampled devices of each island."""
    spread: float
    """s2: S2A would move the average by about (1/K - 1/n) s2, squared."""
    intra: float
    """Disagreement inside islands."""
    inter: float
    """Disagreement between them."""
    bias: float
    """Squared distance by which S2A would move the average."""
    since: int
    """Rounds since the previous server round, or since the start."""
    by_island: bool
    """Whether every island is estimated separately, as under per_component and one_each."""


NEEDED = {
    ("selection", "distances"): "needs_distances",
    ("beta schedule", "estimates"): "needs_estimates",
    ("sampled schedule", "estimates"): "needs_estimates",
    ("period schedule", "estimates"): "needs_estimates",
    ("topology", "round"): "every_round",
}
"""By kind and fact, the attribute of a function that is to know this fact; it costs something."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Context:
    """The facts of a run that a plug-in may ask for: its round, its network and its options.

    All arrays with an entry for each device are in the order of the rows of X, which is that of
    the islands. Arrays, the graph and W are read-only. A fact that is not known yet, such as the
    graph while a data set is loaded, raises an error of one line.

    def to_the_porch(X_nld, sampled_k, delivered_ld, *, context):
        X_nld[context.index("porch")] = delivered_ld
        return 1
    """

    seed: int
    round: int
    """t, counted from 0; for a measure, the rounds done."""
    rounds: int
    """T, the number of rounds."""
    number: int
    """Server rounds before this one."""
    step: int
    """Local steps of every device so far, over all rounds."""
    island: int
    """The island that a topology, the weights of W or an intra partition is asked for."""
    devices: tuple[str, ...]
    """Names of the devices, as in the graph or the data, else their numbers."""
    islands: Ints
    """The island of each device."""
    sizes: tuple[int, ...]
    """Devices on each island."""
    rows: Ints
    """Row numbers of the first axis of the arrays, where a call covers only some devices: a chunk
    of local steps, an island, the sampled. All rows otherwise."""
    graph: nx.Graph[int]
    """The links that are up in this round. Nodes are rows, with the attributes `island` and
    `label`."""
    W: sparse.csr_array
    """The mixing matrix of this round, n x n."""
    samples: Ints
    """Training samples of each device."""
    awake: NDArray[np.bool_]
    """Which devices are awake in this round."""
    awake_sizes: Ints
    """The number of devices awake on each island."""
    order: Ints
    """The devices that are awake, in the order of this round's permutation."""
    sampled: int
    """K, how many devices the server samples."""
    period: int
    """H, the rounds between two server rounds."""
    options: Mapping[str, Any]
    """Options that the experiment sets for this plug-in."""
    parameters: tuple[Parameter, ...]
    """Names and places of the model's parameters in flat vectors."""
    distances: Floats
    """Distance of each device's model from the model delivered last, for selections with the
    attribute `needs_distances`. It costs a number from each device in every server round."""
    estimates: tuple[SpreadEstimate, ...]
    """The server's estimates in earlier server rounds, the latest last, at most server.adapt_over
    of them, for schedules with the attribute `needs_estimates`."""
    mixing_rate: float
    """p of a round with all its gossip steps, for schedules with `needs_estimates`."""
    start: float
    """For a schedule: the value at the start, such as server.beta."""
    end: float | None
    """For a schedule: the value at the end, such as server.beta_end, if it is set."""
    x_test: Tensor
    """For a measure: the inputs of the test set, as the model takes them."""
    y_test: Tensor

    def __init__(self, during: str = "there is no run", source: object = None, **facts: Any):
        """`during` completes "is not known while ..."; `source` has a method `(context)` for each
        fact that is computed when it is first read."""
        vars(self).update(_during=during, _source=source, _kind="", _purpose="", options={})
        vars(self).update((name, read_only(value)) for name, value in facts.items())

    def __getattr__(self, name: str) -> Any:
        """A fact that is read for the first time."""
        if name not in Context.__annotations__:
            raise AttributeError(f"a Context has no '{name}'{did_you_mean(name, _PUBLIC)}")
        find = getattr(self._source, name, None)
        if find is None and name not in _DERIVED:
            needs = NEEDED.get((self._kind, name))
            hint = f" Set the attribute {needs} = True of the function." if needs else ""
            raise SkerryError(f"context.{name} is not known while {self._during}.{hint}")
        vars(self)[name] = found = read_only(find(self) if find else _derived(self, name))
        return found

    def __repr__(self) -> str:
        known = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return f"Context({', '.join(f'{name}={value!r:.60}' for name, value in known.items())})"

    def with_facts(self, **facts: Any) -> Self:
        """A copy in which some facts are others."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self))
        vars(copy).update((name, read_only(value)) for name, value in facts.items())
        return copy

    def knows(self, name: str) -> bool:
        """Whether a fact is known."""
        return name in vars(self) or hasattr(self._source, name)

    def for_plugin(self, kind: str, options: Mapping[str, Any]) -> Self:
        """The context of a plug-in of this kind, with its options."""
        return self.with_facts(_kind=kind, options=options)

    def on_island(self, c: int) -> Ints:
        """The devices of an island that are awake, in the order of this round."""
        found: Ints = read_only(self.order[self.islands[self.order] == c])
        return found

    @property
    def target(self) -> float:
        """For a schedule: the end, for those that need one."""
        if self.end is None:
            raise SkerryError("context.target needs an end. Set the field that ends in _end.")
        return self.end

    @overload
    def index(self, names: str | int) -> int: ...
    @overload
    def index(self, names: list[str] | tuple[str, ...]) -> list[int]: ...
    def index(self, names: Any) -> Any:
        """The row of a device by its name, or the rows of several."""
        if "_row" not in vars(self):
            vars(self)["_row"] = {name: i for i, name in enumerate(self.devices)}
        row = vars(self)["_row"]

        def find(name: object) -> int:
            if (found := row.get(str(name))) is None:
                raise SkerryError(
                    f"there is no device '{name!s:.60}'{did_you_mean(str(name), row)} Devices are "
                    f"called as in the graph or the data, here {_some(self.devices)}."
                )
            return int(found)

        # A number is a name too: graphs have integers for nodes.
        is_one = isinstance(names, str) or not hasattr(names, "__iter__")
        return find(names) if is_one else [find(name) for name in names]

    def random(self, *words: str | int, same: bool = False) -> np.random.Generator:
        """A numpy generator that is new in every round, local step and island, and the same for
        all lanes of a seed. With `same` it does not change with the round. Words separate
        purposes: `context.random("noise")`, `context.random("order")`. In one call of a plug-in,
        the same words give the same numbers; where it gets some rows only, draw for all and take
        those of `rows`."""
        from skerry.seeds import stream

        given = vars(self).get("_generator")
        if given is not None and not words and not same:
            found: np.random.Generator = given
            return found
        if not same and vars(self).get("_is_kept"):
            raise SkerryError(
                f"context.random() is new in every round, which is not known while {self._during}."
                " Use context.random(..., same=True)."
            )
        stepping = isinstance(vars(self).get("step", 0), int)
        if not same and not stepping and self._purpose == "step":
            raise SkerryError(
                "context.random() is for devices that take each local step together, which they do "
                "not with training.local_epochs. Use training.local_steps."
            )
        moving = ("island",) if same else ("round", *(["step"] if stepping else []), "island")
        known = [f"{name}={vars(self)[name]}" for name in moving if name in vars(self)]
        parts = ("plug-in", self._kind, self._purpose, *map(str, words), *known)
        return stream(self.seed, "/".join(parts))

    def outputs(self, models_md: Tensor, x: Tensor | None = None) -> Tensor:
        """For a measure: outputs of m models for inputs, by default the test set's, [m, inputs,
        ...]."""
        found: Tensor = self._ask("outputs")(models_md, self.x_test if x is None else x)
        return found

    def losses(self, models_md: Tensor) -> Tensor:
        """For a measure: the loss of each of m models on the test set, [m]."""
        found: Tensor = self._ask("losses")(models_md)
        return found

    def _ask(self, name: str) -> Any:
        function = getattr(self._source, name, None)
        if function is None:
            raise SkerryError(f"context.{name} is for measures: not while {self._during}.")
        return function


_PUBLIC = [name for name in {**Context.__annotations__, **vars(Context)} if name[0] != "_"]
_DERIVED = ("awake_sizes", "islands", "order", "rows")
"""Facts that follow from others."""


def awake_order(context: Context, t: int | None = None) -> Any:
    """The devices that are awake, in the order of the permutation of round t, by default now."""
    from skerry.seeds import stream

    rng = stream(context.seed, "sampled", context.round if t is None else t)
    order = rng.permutation(len(context.devices))
    return order[context.awake[order]]


def _derived(context: Context, name: str) -> Any:
    import numpy as np

    if name == "order":
        return awake_order(context)
    if name == "rows":
        return np.arange(len(context.devices))
    if name == "islands":
        return np.repeat(np.arange(len(context.sizes)), context.sizes)
    return np.bincount(context.islands[context.awake], minlength=len(context.sizes))


def read_only(value: Any) -> Any:
    """The value; an array as a view that cannot be written to."""
    if hasattr(value, "setflags"):
        value = value.view()
        value.setflags(write=False)
    return value


def _some(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 4 else ", ".join(names)
    )
