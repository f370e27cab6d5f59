"""Plug-ins of every kind with a fault, made by combination: a correct one, one of its hooks, and
something that goes wrong there. Tests name them `plugin_faults:case_17`, as a user would."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import wraps
from types import SimpleNamespace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import nn

from skerry.engine.compression import Compression
from skerry.methods.method import Method, Traffic
from skerry.network.mixing import metropolis

# Correct ones


def topology(size):
    return nx.cycle_graph(size)


def mixing(graph):
    return metropolis(graph).toarray()


def dataset():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    x = rng.normal(size=(90, 4)) + 2 * np.eye(4)[y]
    return x[30:], y[30:], x[:30], y[:30]


def inter(labels, classes, sizes):
    return np.array_split(np.arange(len(labels)), len(sizes))


def intra(labels, indices, size):
    return np.array_split(indices, size)


def schedule(context):
    return 1 / (1 + context.round)


def primitive(X_nld, sampled_k, delivered_ld):
    X_nld.lerp_(delivered_ld, 0.5)
    return len(X_nld)


def selection(context):
    return context.order[: context.sampled]


def beta(context):
    return 0.3


def sampled(context):
    return 2


def period(context):
    return 2


def local_optimizer(gradient, state):
    return state["v"].mul_(0.5).add_(gradient)


local_optimizer.keeps = ("v",)


def measure(models, context):
    return (models - models.mean(dim=0)).norm() + context.losses(models).mean()


def loss(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)


def score(outputs, targets):
    return outputs.softmax(dim=-1).amax(dim=-1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return torch.tanh(self.layer(x.flatten(1)))


class Sampling:
    def __init__(self, partition, batch):
        self.partition, self.batch = partition, batch

    def indices(self, t, step, steps):
        held = [self.partition.indices(i) for i in range(len(self.partition.sizes))]
        places = (t * steps + step) * self.batch + np.arange(self.batch)
        return np.stack([samples[places % len(samples)] for samples in held])


class Optimizer:
    @staticmethod
    def start(x0_ld):
        return {"v": torch.zeros_like(x0_ld)}

    @staticmethod
    def deliver(memory, average_ld):
        return memory["v"].mul_(0.5).add_(average_ld)


class Momentum(Method):
    def start(self, X_nld):
        return {"v": torch.zeros_like(X_nld)}

    def before_step(self, lanes):
        return lanes.X_nld.clone()

    def after_step(self, lanes, before):
        V = lanes.state["v"].mul_(0.5).add_(before - lanes.X_nld)
        torch.sub(before, V, out=lanes.X_nld)

    def mix(self, lanes, mix):
        mix(lanes.X_nld)

    def aggregate(self, lanes, server):
        return Traffic(len(server.sampled_k), server.deliver(lanes.X_nld))


class Halves(Compression):
    quality = 0.5

    def compress(self, V_rld, draws):
        V_rld.mul_(0.5)

    def bytes(self, parameters):
        return 2 * parameters


# Faults: each makes a hook of a correct one

ENTROPY = np.random.default_rng(0)
"""A generator that nobody resets, as the clock or the system's entropy is."""


class Fault(NamedTuple):
    name: str
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    refused: bool = False
    """Whether the run must be refused; otherwise it may be harmless, as the control is."""


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("even this fails")


class OwnExitError(BaseException):
    pass


class OwnInterruptError(KeyboardInterrupt):
    pass


class UnprintableRuntimeError(RuntimeError):
    __repr__ = __str__ = lambda self: 1 / 0


RAISED = {
    "value": lambda: ValueError("boom\nand a second line"),
    "empty": AssertionError,
    "unprintable": UnprintableError,
    "unprintable_runtime": UnprintableRuntimeError,
    "exit": lambda: SystemExit(3),
    "own_exit": OwnExitError,
    "own_interrupt": OwnInterruptError,
    "stop": StopIteration,
    "generator_exit": GeneratorExit,
    "control": lambda: ValueError("\x1b[31mred\x00\x07"),
    "surrogate": lambda: UnicodeError("\ud800"),
    "long": lambda: ValueError("x" * 100_000),
    "group": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "key": lambda: KeyError("weight"),
}


def _raises(make):
    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            raise make()

        return broken

    return wrap


def _raises_from(call, make):
    """From this call on: in the rehearsal, or in the middle of a run."""

    def wrap(hook):
        calls = [0]

        @wraps(hook)
        def broken(*args, **options):
            calls[0] += 1
            if calls[0] >= call:
                raise make()
            return hook(*args, **options)

        return broken

    return wrap


def _recurses(hook):
    @wraps(hook)
    def broken(*args, **options):
        return broken(*args, **options)

    return broken


EXCEPTIONS = [
    *(Fault(f"raises {name}", _raises(make), True) for name, make in RAISED.items()),
    Fault("recurses", _recurses, True),
    *(Fault(f"raises at call {n}", _raises_from(n, RAISED["value"])) for n in (2, 9, 30)),
    Fault("stops at call 9", _raises_from(9, StopIteration)),
    Fault("unprintable at call 30", _raises_from(30, UnprintableError)),
]


def _returns(make):
    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            return make(hook(*args, **options))

        return broken

    return wrap


def _like(found, change: Callable[[Any], Any]):
    """The result with its arrays or numbers changed."""
    if isinstance(found, dict):
        return {name: _like(one, change) for name, one in found.items()}
    if isinstance(found, tuple | list):
        return type(found)(_like(one, change) for one in found)
    return change(found)


def _nan(one):
    if isinstance(one, torch.Tensor) and one.is_floating_point():
        return torch.full_like(one, float("nan"))
    if isinstance(one, np.ndarray):
        return np.full(one.shape, np.nan)
    return float("nan")


def _inf(one):
    if isinstance(one, torch.Tensor) and one.is_floating_point():
        return one + float("inf")
    return one * np.inf if isinstance(one, np.ndarray) else float("inf")


def _shorter(one):
    return one[:1] if hasattr(one, "shape") and one.ndim else one


def _deeper(one):
    return one[None] if isinstance(one, torch.Tensor | np.ndarray) else [one]


def _whole(one):
    if isinstance(one, torch.Tensor):
        return one.long()
    return one.astype(np.int32) if isinstance(one, np.ndarray) else one


def _doubled(one):
    if isinstance(one, torch.Tensor):
        return one.double()
    return one.astype(object) if isinstance(one, np.ndarray) else np.float64(one)


def _numpy(one):
    return one.detach().numpy() if isinstance(one, torch.Tensor) else one


RETURNS = [
    Fault(f"returns {name}", _returns(make))
    for name, make in {
        "None": lambda found: None,
        "text": lambda found: "3",
        "object": lambda found: object(),
        "empty list": lambda found: [],
        "empty dict": lambda found: {},
        "minus one": lambda found: -1,
        "True": lambda found: True,
        "half": lambda found: 0.5,
        "huge": lambda found: 10**400,
        "function": lambda found: print,
        "pair": lambda found: (found, found),
        "nan": lambda found: _like(found, _nan),
        "inf": lambda found: _like(found, _inf),
        "shorter": lambda found: _like(found, _shorter),
        "deeper": lambda found: _like(found, _deeper),
        "whole": lambda found: _like(found, _whole),
        "double": lambda found: _like(found, _doubled),
        "numpy": lambda found: _like(found, _numpy),
        "generator": lambda found: (one for one in [found]),
    }.items()
]


def _first(act):
    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            act()
            return hook(*args, **options)

        return broken

    return wrap


DRAWS = [
    Fault(f"draws {name}", _first(act), True)
    for name, act in {
        "random": random.random,
        "shuffle": lambda: random.shuffle([1, 2, 3]),
        "seed": lambda: random.seed(5),
        "numpy": lambda: np.random.rand(3),  # noqa: NPY002
        "numpy seed": lambda: np.random.seed(7),  # noqa: NPY002
        "numpy permutation": lambda: np.random.permutation(4),  # noqa: NPY002
        "torch": lambda: torch.rand(2),
        "torch seed": lambda: torch.manual_seed(3),
        "torch normal": lambda: torch.empty(3).normal_(),
    }.items()
]


def _changed(mutate):
    """The arguments are changed after the call, where only a copy tells."""

    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            found = hook(*args, **options)
            mutate(*args, **options)
            return found

        return broken

    return wrap


def _shifted(shift, amount):
    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            found = hook(*args, **options)
            return shift(found, amount(), *args)

        return broken

    return wrap


def _count():
    calls = [0]

    def amount():
        calls[0] += 1
        return calls[0] % 7

    return amount


def _alternating():
    calls = [0]

    def amount():
        calls[0] += 1
        return calls[0] % 2

    return amount


SIGNATURES = [
    Fault("no parameters", lambda hook: lambda: None),
    Fault("one more", lambda hook: lambda a, b, c, d, e, f, g, h: None, True),
    Fault("an option that is not set", lambda hook: lambda *args, strength_of_it: None, True),
    Fault("any arguments", lambda hook: lambda *args: hook(*args)),
]


def change(of: Callable[..., Any], how: str) -> Callable[..., None]:
    """A change of a lent tensor or array in one of the ways that there are."""

    def mutate(*args, **options):
        lent = of(*args, **options)
        if isinstance(lent, torch.Tensor):
            flat = lent.detach() if how != "data" else lent.data
            if how == "numpy":
                lent.detach().numpy()[...] += 1
            elif how == "out":
                torch.add(flat, 1, out=flat)
            elif how == "fill":
                flat.fill_(True) if lent.dtype == torch.bool else flat.fill_(0)
            else:
                flat.logical_not_() if lent.dtype == torch.bool else flat.add_(1)
        elif how == "fill":
            lent.fill(0)
        elif how == "sort":
            lent[...] = lent[::-1].copy()
        else:
            lent[...] = lent + 1

    return mutate


def mutations(lent: dict[str, Callable[..., Any]]) -> Iterator[Fault]:
    """Changes of everything that a hook is lent; most are refused, some change nothing."""
    for word, of in lent.items():
        for how in ("add", "data", "numpy", "out", "fill", "sort"):
            yield Fault(f"changes {word} by {how}", _changed(change(of, how)))


# Kinds


def scaled(found, amount, *args):
    return found * (1 + 0.3 * amount)


def moved(found, amount, models, *args):
    X = getattr(models, "X_nld", models)
    X.add_(0.3 * amount)
    return found


@dataclass(frozen=True)
class Kind:
    """A kind of plug-ins: how an experiment names one, and its hooks with all that they get."""

    settings: tuple[str, ...]
    """Settings of an experiment, of which the last ends in the name of the plug-in."""
    control: Any
    hooks: tuple[str, ...] = ("",)
    lent: dict[str, dict[str, Callable[..., Any]]] = field(default_factory=dict)
    shift: dict[str, Callable[..., Any]] = field(default_factory=dict)
    leaks: dict[str, dict[str, Callable[..., Any]]] = field(default_factory=dict)
    """By hook, changes after which a lane or device depends on others, or counts are wrong."""
    seeded: bool = False
    """Whether draws from torch's generator are allowed, because it is seeded."""
    others: tuple[tuple[str, ...], ...] = ((),)
    """Further settings to combine with."""

    def plug_in(self, hook: str, fault: Fault | None) -> Any:
        """The correct plug-in, or one with a fault in a hook."""
        if fault is None:
            return self.control
        if not hook:
            made = fault.wrap(self.control)
            for name, value in vars(self.control).items():
                if name != "__wrapped__":
                    setattr(made, name, value)
            return made
        own = vars(self.control)[hook]
        is_static = isinstance(own, staticmethod)
        made = fault.wrap(own.__func__ if is_static else own)
        return type(
            self.control.__name__,
            (self.control,),
            {hook: staticmethod(made) if is_static else made},
        )


SERVERS = (
    ("server.primitive=s2a",),
    ("server.primitive=blend",),
    ("server.selection=weighted", "server.primitive=s2a"),
)
ANYWHERE = (("network.topology=complete",), ("network.dynamic=true",), ("availability.awake=0.8",))
LINKS = ("network.gossip_steps=2",)


def _x(lanes, *rest):
    return lanes.X_nld


def _neighbour(X, *rest, **more):
    X = getattr(X, "X_nld", X)
    X.add_(0.2 * X.mean(dim=-2, keepdim=True))


def _sum_of_lanes(X, *rest, **more):
    X = getattr(X, "X_nld", X)
    X.mul_(1 + 0.5 * X.shape[-2])


def _first_lane(X, *rest, **more):
    X = getattr(X, "X_nld", X)
    X.copy_(X[..., :1, :].expand_as(X).clone() * 0.5 + X * 0.5) if X.shape[-2] == 1 else X.copy_(
        X.flip(-2)
    )


def _all_the_first(X, *rest, **more):
    X = getattr(X, "X_nld", X)
    X.copy_(X[..., :1, :].expand_as(X).clone())


def _scaled_by_lane(X, *rest, **more):
    X = getattr(X, "X_nld", X)
    X.mul_(1 + 0.1 * torch.arange(X.shape[-2])[:, None])


def _chunk_mean(lanes, *rest, **more):
    lanes.X_nld.add_(0.2 * lanes.X_nld.mean(dim=0))


def _chunk_size(lanes, *rest, **more):
    lanes.X_nld.mul_(1 + 0.1 * len(lanes.X_nld))


def _chunk_draws(lanes, *rest, **more):
    draws = lanes.context.random("noise").normal(size=(len(lanes.X_nld), 1, 1))
    lanes.X_nld.add_(torch.from_numpy(0.3 * draws).float())


LANES = {
    "mean of lanes": _neighbour,
    "number of lanes": _sum_of_lanes,
    "other lane": _first_lane,
    "all lanes the first": _all_the_first,
    "scaled by lane": _scaled_by_lane,
}
CHUNKS = {
    "mean of chunk": _chunk_mean,
    "size of chunk": _chunk_size,
    "draws of chunk": _chunk_draws,
}


def _result(change):
    def wrap(hook):
        @wraps(hook)
        def broken(*args, **options):
            return change(hook(*args, **options))

        return broken

    return wrap


KINDS = {
    "topology": Kind(
        ("network.topology",),
        topology,
        others=(("network.components=1",), LINKS),
        shift={"": lambda graph, amount, size: nx.path_graph(size) if amount % 2 else graph},
    ),
    "mixing": Kind(
        ("network.mixing",),
        mixing,
        lent={"": {}},
        others=(("network.topology=complete",), ("network.link_failure=0.2",)),
        shift={"": lambda W, amount, graph: W * (1 - 0.1 * amount) + 0.1 * amount * np.eye(len(W))},
    ),
    "dataset": Kind(
        ("data.dataset",),
        dataset,
        seeded=True,
        others=(("data.inter=iid",), ("server.primitive=s2a",)),
    ),
    "inter partition": Kind(
        ("data.inter",),
        inter,
        lent={"": {"labels": lambda labels, *rest: labels}},
        shift={"": lambda found, amount, *args: [found[i - amount % 2] for i in range(len(found))]},
        others=(("data.intra=dirichlet",), ("server.primitive=s2a",)),
    ),
    "intra partition": Kind(
        ("data.intra",),
        intra,
        lent={
            "": {
                "labels": lambda labels, *rest: labels,
                "indices": lambda labels, indices, *rest: indices,
            }
        },
        shift={"": lambda found, amount, *args: [found[i - amount % 2] for i in range(len(found))]},
        others=(("data.inter=iid",), ("server.primitive=s2a",)),
    ),
    "sampling": Kind(
        ("training.sampling",),
        Sampling,
        hooks=("indices",),
        lent={
            "indices": {
                "order": lambda self, *rest: self.partition.order,
                "offsets": lambda self, *rest: self.partition.offsets,
            }
        },
        shift={"indices": lambda found, amount, *args: found[:, [amount % 4] * found.shape[1]]},
        others=(("training.local_steps=2",),),
    ),
    "schedule": Kind(("training.schedule",), schedule, shift={"": scaled}, others=SERVERS[:2]),
    "beta schedule": Kind(
        ("server.primitive=blend", "server.beta_schedule"),
        beta,
        shift={"": lambda found, amount, *args: found + 0.1 * amount},
        others=(("network.topology=complete",),),
    ),
    "sampled schedule": Kind(
        ("server.sampled_schedule",),
        sampled,
        shift={"": lambda found, amount, *args: found + amount % 3},
        others=SERVERS[:1],
    ),
    "period schedule": Kind(
        ("server.period_schedule",),
        period,
        shift={"": lambda found, amount, *args: found + amount % 3},
        others=SERVERS[:1],
    ),
    "selection": Kind(
        ("server.selection",),
        selection,
        lent={
            "": {
                "order": lambda context: context.order,
                "islands": lambda context: context.islands,
                "samples": lambda context: context.samples,
                "awake": lambda context: context.awake,
                "W": lambda context: context.W.data,
            }
        },
        shift={"": lambda found, amount, *args: (found + amount) % 6},
        others=SERVERS[:2],
    ),
    "primitive": Kind(
        ("server.primitive",),
        primitive,
        lent={
            "": {
                "sampled_k": lambda X, sampled_k, *rest: sampled_k,
                "delivered_ld": lambda X, k, delivered_ld, *rest: delivered_ld,
            }
        },
        shift={"": moved},
        leaks={"": LANES},
        others=(
            ("server.optimizer=fedavgm",),
            ("availability.awake=0.8",),
            ("training.optimizer=momentum",),
        ),
    ),
    "server optimizer": Kind(
        ("server.optimizer",),
        Optimizer,
        hooks=("start", "deliver"),
        lent={"start": {"x0_ld": lambda x0_ld: x0_ld}},
        shift={"deliver": scaled},
        leaks={"deliver": LANES},
        others=SERVERS,
    ),
    "method": Kind(
        ("method.name",),
        Momentum,
        hooks=("start", "before_step", "after_step", "mix", "aggregate"),
        lent={
            "start": {"X_nld": lambda self, X_nld: X_nld},
            "before_step": {"eta_l1": lambda self, lanes: lanes.eta_l1},
            "after_step": {"eta_l1": lambda self, lanes, before: lanes.eta_l1},
            "mix": {"eta_l1": lambda self, lanes, mix: lanes.eta_l1},
            "aggregate": {
                name: (lambda self, lanes, server, name=name: getattr(server, name))
                for name in ("sampled_k", "weights_k", "islands_n", "receivers")
            },
        },
        shift={
            name: (lambda found, amount, self, lanes, *rest: moved(found, amount, lanes))
            for name in ("before_step", "after_step", "mix", "aggregate")
        },
        leaks={
            "before_step": LANES | CHUNKS,
            "after_step": LANES | CHUNKS,
            "mix": LANES,
            "aggregate": LANES,
        },
        others=(("server.primitive=s2a",), ("training.local_steps=2",)),
    ),
    "local optimizer": Kind(
        ("training.optimizer",),
        local_optimizer,
        shift={"": scaled},
        leaks={"": LANES | CHUNKS},
        others=(
            ("training.local_steps=2",),
            ("server.primitive=s2a",),
            ("training.weight_decay=0.01",),
        ),
    ),
    "compression": Kind(
        ("network.compression",),
        Halves,
        hooks=("compress", "bytes"),
        lent={
            "compress": {
                "keys": lambda self, V, draws: draws.keys_r,
                "real_d": lambda self, V, draws: draws.real_d,
            }
        },
        shift={
            "compress": lambda found, amount, self, V, draws: V.mul_(1 + 0.1 * amount),
            "bytes": lambda found, amount, *args: found + amount,
        },
        leaks={"compress": LANES},
        others=(("network.topology=complete",), LINKS),
    ),
    "server compression": Kind(
        ("server.compression",),
        Halves,
        hooks=("compress", "bytes"),
        lent={
            "compress": {
                "keys": lambda self, V, draws: draws.keys_r,
                "real_d": lambda self, V, draws: draws.real_d,
            }
        },
        shift={
            "compress": lambda found, amount, self, V, draws: V.mul_(1 + 0.1 * amount),
            "bytes": lambda found, amount, *args: found + amount,
        },
        leaks={"compress": LANES},
        others=(("server.primitive=s2a",), ("server.compressed=up",)),
    ),
    "measure": Kind(
        ("evaluate.own",),
        measure,
        lent={
            "": {
                "models": lambda models, context: models,
                "y_test": lambda models, context: context.y_test,
                "x_test": lambda models, context: context.x_test,
            }
        },
        shift={"": scaled},
        others=SERVERS[:2],
    ),
    "loss": Kind(
        ("task.loss",),
        loss,
        lent={
            "": {
                "outputs": lambda outputs, targets: outputs,
                "targets": lambda outputs, targets: targets,
            }
        },
        shift={"": scaled},
        others=(("model.name=mlp",), ("server.primitive=s2a",)),
    ),
    "score": Kind(
        ("task.score",),
        score,
        lent={
            "": {
                "outputs": lambda outputs, targets: outputs,
                "targets": lambda outputs, targets: targets,
            }
        },
        shift={"": scaled},
        others=(("model.name=mlp",),),
    ),
    "model": Kind(
        ("model.name",),
        Net,
        hooks=("forward",),
        lent={"forward": {"x": lambda self, x: x}},
        shift={"forward": scaled},
        seeded=True,
        others=(("training.optimizer=momentum",), ("server.primitive=s2a",)),
    ),
}

FEWER = [
    Fault(
        f"reports {name}",
        _result(
            lambda found, make=make: (
                Traffic(found.up, make(found.down)) if isinstance(found, Traffic) else make(found)
            )
        ),
        True,
    )
    for name, make in {
        "none": lambda n: 0,
        "one less": lambda n: n - 1,
        "half": lambda n: n // 2,
        "a float": float,
        "NaN": lambda n: float("nan"),
        "less than none": lambda n: -1,
        "truth": lambda n: True,
        "nothing": lambda n: None,
        "a text": str,
        "a list": lambda n: [n],
    }.items()
]


def _mixes(times):
    return lambda hook: lambda self, lanes, mix: [hook(self, lanes, mix) for _ in range(times)]


MIXINGS = [Fault(f"mixes {times} times", _mixes(times), True) for times in (0, 2)]

DISCRETE = (
    "topology", "inter partition", "intra partition", "sampling", "selection", "sampled schedule",
    "period schedule",
)  # fmt: skip
"""Kinds with so few results that two draws from an entropy may be equal by chance."""
LEGAL = {
    "dataset": ("whole", "double"),
    "schedule": ("half",),
    "beta schedule": ("half",),
    "selection": ("empty list", "shorter"),
    "before_step": ("minus one", "half", "whole", "True", "huge"),
    "measure": ("minus one", "True", "half", "nan", "inf", "whole"),
    "score": ("nan", "inf", "whole"),
}
"""Results that are other than the control's, but keep to the contract: by kind or hook."""


def faults_of(name: str, hook: str) -> list[Fault]:
    """All faults of one hook of a kind."""
    kind, legal = KINDS[name], LEGAL.get(hook or name, ())
    returns = [one for one in RETURNS if one.name.removeprefix("returns ") not in legal]
    found = [*EXCEPTIONS, *returns, *mutations(kind.lent.get(hook, {}))]
    found += [
        one if not (kind.seeded and "torch" in one.name) else one._replace(refused=False)
        for one in DRAWS
    ]
    if shift := kind.shift.get(hook):
        found += [
            Fault(f"hidden {name}", _shifted(shift, make()), True)
            for name, make in (("count", _count), ("turn", _alternating))
        ]
        if name not in DISCRETE:
            found.append(Fault("entropy", _shifted(shift, lambda: 1 + 5 * ENTROPY.random())))
    for name, leak in kind.leaks.get(hook, {}).items():
        wrap = _of_result if kind.control is local_optimizer or hook == "deliver" else _changed
        found.append(Fault(name, wrap(_of_arrays(leak)), True))
    if hook in ("", "aggregate") and kind.control in (primitive, Momentum):
        found += FEWER
    if hook == "mix":
        found += MIXINGS
    if hook == "indices":
        found.append(Fault("others' samples", _result(lambda found: found[::-1].copy()), True))
    if not hook:
        found += SIGNATURES
    return found


def _of_result(mutate):
    """The result is changed; `context` and all arguments are at hand."""

    def wrap(hook):
        def broken(array, state, context):
            found = hook(array, state)
            mutate(SimpleNamespace(X_nld=found, context=context))
            return found

        return broken

    return wrap


def _of_arrays(leak):
    """A leak for hooks of classes, whose first argument is the instance."""

    def mutate(*args, **options):
        is_instance = isinstance(args[0], Method | Compression)
        leak(*(args[1:] if is_instance else args), **options)

    return mutate


def register(number: int, plug_in: Any) -> str:
    """A name by which an experiment finds the plug-in."""
    globals()[f"case_{number}"] = plug_in
    return f"plugin_faults:case_{number}"
