"""Built-in names of every plug-in kind, and the functions and options behind names.

`resolve(kind, name)` returns the function or class behind a built-in name or a user's own
`package.module:name`. One line declares a built-in: `"name": "module:function(option, option)"`.
The parentheses list its options, the keyword-only parameters, so that content keys and help need
no import of torch or networkx; a test compares them with the signature. Primitives are declared
beside their functions, in `skerry.engine.primitives`; every module of `skerry.methods` is a method.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from skerry.errors import (
    SkerryError,
    did_you_mean,
    is_interrupt,
    is_out_of_memory,
    one_line,
    unknown,
)
from skerry.plugins import fingerprint
from skerry.plugins.randomness import captures_graph, global_randomness
from skerry.plugins.sources import source_hash

V = TypeVar("V")


class LazyTable(Mapping[str, V]):
    """A table by name. Its names are listed, and each value is found, when they are first read."""

    def __init__(self, names: Callable[[], Iterable[str]], find: Callable[[str], V]):
        self._names, self._find = cache(lambda: tuple(names())), cache(find)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __getitem__(self, name: str) -> V:
        if name not in self._names():
            raise KeyError(name)
        return self._find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


def _primitives() -> dict[str, Callable[..., Any]]:
    return dict(importlib.import_module("skerry.engine.primitives").PRIMITIVES)


def _method_names() -> list[str]:
    """`sgd`, which the protocol is, and the other modules of `skerry.methods`."""
    modules = Path(__file__).parent.parent.joinpath("methods").glob("[!_]*.py")
    return sorted("sgd" if file.stem == "method" else file.stem for file in modules)


def _method(name: str) -> type:
    """The class of a method: in the module of its name, the one with that `name`."""
    module = importlib.import_module(f"skerry.methods.{'method' if name == 'sgd' else name}")
    classes = (value for value in vars(module).values() if isinstance(value, type))
    return next(one for one in classes if vars(one).get("name") == name)


def _reference(function: Callable[..., Any]) -> str:
    """The line that would declare this function: `module:function(option, option)`."""
    parameters = inspect.signature(function).parameters.values()
    options = ", ".join(
        p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "context"
    )
    return f"{function.__module__}:{function.__qualname__}({options})"


PRIMITIVES = LazyTable(_primitives, lambda name: _reference(_primitives()[name]))
METHODS = LazyTable(_method_names, lambda name: _reference(_method(name)))
SERVER_SCHEDULES = {
    "constant": "skerry.config.schedules:constant",
    "cosine": "skerry.config.schedules:cosine",
    "double": "skerry.config.schedules:double(change_every)",
    "inverse_sqrt": "skerry.config.schedules:inverse_sqrt",
    "step": "skerry.config.schedules:step(change_every)",
    "switch": "skerry.config.schedules:switch(switch_round)",
}

KINDS: dict[str, Mapping[str, str]] = {
    "topology": {
        "barabasi_albert": "skerry.network.topologies:barabasi_albert(degree)",
        "complete": "skerry.network.topologies:complete",
        "erdos_renyi": "skerry.network.topologies:erdos_renyi(edge_prob)",
        "grid": "skerry.network.topologies:grid",
        "path": "skerry.network.topologies:path",
        "regular": "skerry.network.topologies:regular(degree)",
        "ring": "skerry.network.topologies:ring",
        "star": "skerry.network.topologies:star",
        "torus": "skerry.network.topologies:torus",
        "watts_strogatz": "skerry.network.topologies:watts_strogatz(degree, rewire_prob)",
    },
    "mixing": {
        "laplacian": "skerry.network.mixing:laplacian",
        "lazy": "skerry.network.mixing:lazy",
        "max_degree": "skerry.network.mixing:max_degree",
        "metropolis": "skerry.network.mixing:metropolis",
    },
    "dataset": {
        "cifar10": "skerry.data.sources.catalog:cifar10(path)",
        "cifar100": "skerry.data.sources.catalog:cifar100(path)",
        "devices": "skerry.data.sources.catalog:device_files(path)",
        "digits": "skerry.data.sources.catalog:digits",
        "fashion_mnist": "skerry.data.sources.catalog:fashion_mnist(path)",
        "mnist": "skerry.data.sources.catalog:mnist(path)",
        "npz": "skerry.data.sources.catalog:npz(path)",
        "speeches": "skerry.data.sources.catalog:speeches(path)",
        "synthetic": "skerry.data.sources.synthetic:classes"
        "(samples, test_samples, features, classes, difficulty, data_seed)",
        "synthetic_regression": "skerry.data.sources.synthetic:regression"
        "(samples, test_samples, features, noise, curve, data_seed)",
        "synthetic_tokens": "skerry.data.sources.synthetic:tokens"
        "(samples, test_samples, length, vocabulary, dialects, data_seed)",
        "vowels": "skerry.data.sources.catalog:vowels",
    },
    "inter partition": {
        "dirichlet": "skerry.data.partition:inter_dirichlet(alpha, inter_alpha, min_samples)",
        "iid": "skerry.data.partition:inter_iid",
        "non_iid": "skerry.data.partition:inter_non_iid",
    },
    "intra partition": {
        "dirichlet": "skerry.data.partition:intra_dirichlet(alpha)",
        "iid": "skerry.data.partition:intra_iid",
        "shards": "skerry.data.partition:intra_shards(shards)",
    },
    "sampling": {
        "epochs": "skerry.data.batches:ShuffledEpochs",
        "replacement": "skerry.data.batches:WithReplacement",
    },
    "model": {
        "cnn_cifar10": "skerry.models.networks:cnn_cifar10(variant)",
        "cnn_cifar100": "skerry.models.networks:cnn_cifar100(dropout)",
        "gru": "skerry.models.networks:gru(width, layers)",
        "linear": "skerry.models.linear:linear",
        "mlp": "skerry.models.networks:mlp(hidden)",
        "quadratic": "skerry.models.quadratic:quadratic(curvature, conditioning)",
        "transformer": "skerry.models.networks:transformer(width, heads, layers)",
    },
    "loss": {
        "cross_entropy": "skerry.tasks.losses:cross_entropy",
        "huber": "skerry.tasks.losses:huber(delta)",
        "mae": "skerry.tasks.losses:mae",
        "mse": "skerry.tasks.losses:mse",
    },
    "score": {"top5": "skerry.tasks.losses:top5"},
    "schedule": {
        "constant": "skerry.config.schedules:constant_stepsize",
        "cosine": "skerry.config.schedules:cosine_stepsize",
        "inverse_sqrt": "skerry.config.schedules:inverse_sqrt_stepsize",
        "step": "skerry.config.schedules:step_stepsize(decay_every, decay_factor)",
    },
    "local optimizer": {
        "adam": "skerry.engine.local_optimizers:adam(momentum, second_momentum, smallest)",
        "momentum": "skerry.engine.local_optimizers:momentum(momentum)",
        "sgd": "skerry.engine.local_optimizers:sgd",
    },
    "primitive": PRIMITIVES,
    "compression": {
        "int8": "skerry.engine.compression:Int8",
        "none": "skerry.engine.compression:Compression",
        "random_k": "skerry.engine.compression:RandomK(compression_share)",
        "top_k": "skerry.engine.compression:TopK(compression_share)",
    },
    "method": METHODS,
    "selection": {
        "bernoulli": "skerry.engine.participation.selection:bernoulli(sample_prob)",
        "importance": "skerry.engine.participation.selection:importance",
        "one_each": "skerry.engine.participation.selection:one_each",
        "per_component": "skerry.engine.participation.selection:per_component",
        "round_robin": "skerry.engine.participation.selection:round_robin",
        "uniform": "skerry.engine.participation.selection:uniform",
        "weighted": "skerry.engine.participation.selection:weighted",
    },
    "beta schedule": {
        **SERVER_SCHEDULES,
        "adaptive": "skerry.theory.adaptive:beta(bias_cost, adapt_over)",
    },
    "sampled schedule": {
        **SERVER_SCHEDULES,
        "adaptive": "skerry.theory.adaptive:sampled(sampled_target, adapt_over)",
    },
    "period schedule": {
        **SERVER_SCHEDULES,
        "adaptive": "skerry.theory.adaptive:period(period_target, adapt_over)",
    },
    "server optimizer": {
        "fedadam": "skerry.engine.server:FedAdam"
        "(momentum, second_momentum, smallest, learning_rate)",
        "fedavg": "skerry.engine.server:FedAvg",
        "fedavgm": "skerry.engine.server:FedAvgM(momentum, dampening, learning_rate)",
        "fedavgm_averages": "skerry.engine.server:FedAvgMOfAverages(momentum, learning_rate)",
        "fedyogi": "skerry.engine.server:FedYogi"
        "(momentum, second_momentum, smallest, learning_rate)",
    },
    "executor": {
        "here": "skerry.runs.executors.here:Here",
        "processes": "skerry.runs.executors.processes:Processes",
        "ray": "skerry.runs.executors.ray:OnRay",
    },
    "tracker": {
        "mlflow": "skerry.runs.tracking:MLflow",
        "tensorboard": "skerry.runs.tracking:TensorBoard",
        "wandb": "skerry.runs.tracking:WandB",
    },
}

DATASET_FILES = {
    "devices": "a table with a column device, or a folder with a file per device,",
    "npz": "a .npz file",
}
"""Data sets that need data.path, and what it must name."""
DATASETS_BY_DEVICE = ("devices", "speeches", "vowels")
"""Data sets that say which device holds which samples."""
READ_ONLY = ("read-only", "Frozen graph", "FrozenInstanceError", "mappingproxy")
"""Words of the errors that numpy, networkx and dataclasses raise for a change of what is lent."""
GIVEN = "given"
"""The name that is recorded for a graph, data set or model given from Python."""
GIVEN_AS = {"topology": "graph", "dataset": "dataset", "model": "model"}
"""Kinds that can be given from Python as objects, and the argument of `skerry.run` for each."""


def resolve(kind: str, name: str) -> Any:
    """The object behind a built-in name or a `package.module:name` reference."""
    if fault := name_fault(kind, name):
        raise SkerryError(fault)
    if is_given(kind, name):
        raise SkerryError(
            f"{kind} '{name}' is not in the experiment: it is given from Python. Call "
            f"skerry.run(..., {GIVEN_AS[kind]}=...), or name a {kind}: {', '.join(KINDS[kind])}."
        )
    declared = KINDS[kind][name].partition("(")[0] if is_builtin(kind, name) else name
    return _load(kind, declared)


def build(kind: str, name: str, options: Mapping[str, Any], base: type[V]) -> V:
    """An instance of the class behind a name, which must inherit from `base`."""
    with users_own(kind, name):
        made = resolve(kind, name)(**options)
    if not isinstance(made, base):
        raise SkerryError(
            f"{kind} '{name}' must be a class that inherits from {base.__module__}."
            f"{base.__name__} (got {type(made).__name__})."
        )
    return made


def view(name: str) -> Any:
    """The function of `skerry.report` that shows an object of a lower layer in a notebook."""
    return _load("view", f"skerry.report.notebook:{name}")


def is_builtin(kind: str, name: str) -> bool:
    """Whether this kind has a built-in of this name."""
    return name in KINDS.get(kind, ())


def is_given(kind: str, name: str) -> bool:
    """Whether the name stands for a graph, data set or model given from Python as an object."""
    return name == GIVEN and kind in GIVEN_AS


def source_fingerprint(reference: str) -> str:
    """The hash of the file that holds a user's `package.module:name`, and of the user's own modules
    that it imports; empty if the module is not found.

    It is part of the content key, so that an edited plug-in is computed again. A function given
    from Python has its fingerprint in its name.
    """
    if fingerprint.is_function_name(reference):
        return reference.rpartition("@")[2]
    module = reference.partition(":")[0]
    try:
        importlib.import_module(module)
    except (Exception, SystemExit):  # a record of another machine may name what is not here
        return ""
    if found := source_hash(module):
        return found
    raise SkerryError(
        f"'{reference}' cannot be told apart from another version of it, because the source of "
        f"module {module} cannot be read. Keep the module in a file, or give the function itself."
    )


def name_fault(kind: str, name: str) -> str | None:
    """Why `name` cannot be used as a `kind`, or None. Imports a user's module, no built-in."""
    if is_builtin(kind, name) or is_given(kind, name):
        return None
    if ":" not in name:
        return unknown(kind, name, KINDS[kind])
    try:
        found = _load(kind, name)
    except SkerryError as error:
        return str(error)
    if kind == "server optimizer":
        rule = "have the methods start and deliver"
        sound = all(callable(getattr(found, method, None)) for method in ("start", "deliver"))
    elif kind == "model" and hasattr(found, "forward") and not isinstance(found, type):
        rule = "be a function that returns a new nn.Module, so that every seed has its own start"
        sound = False
    else:
        rule, sound = "be a function", callable(found)
    return None if sound else f"{kind} '{name}' must {rule} (got {type(found).__name__})."


@contextmanager
def users_own(kind: str, name: str, raised: type[SkerryError] = SkerryError) -> Iterator[None]:
    """Call a user's own code: its errors are raised as this class, in one line, and so are draws
    from global random state.

    Errors inside a built-in are bugs of skerry and pass through unchanged.
    """
    if is_builtin(kind, name):
        yield
        return
    with global_randomness(kind, name, raised), errors_of(kind, name, raised):
        yield


@contextmanager
def errors_of(kind: str, name: str, raised: type[SkerryError] = SkerryError) -> Iterator[None]:
    """Raise errors of a user's own code as this class, in one line."""
    try:
        yield
    except SkerryError:
        raise
    except BaseException as error:  # a user's code may fail in any way
        if is_out_of_memory(error) or is_interrupt(error) or captures_graph():
            raise
        text = one_line(error)
        fault = f"failed ({text}). Correct the function; skerry --debug shows where it fails."
        if any(words in text for words in READ_ONLY):
            fault = f"changed what it was only lent ({text}). Work on a copy."
        raise raised(f"{kind} '{name}' {fault}") from error


def _load(kind: str, reference: str) -> Any:
    if fingerprint.is_function_name(reference):
        if (found := fingerprint.FUNCTIONS.get(reference)) is not None:
            return found
        own, _, source = reference.removeprefix(fingerprint.PREFIX).rpartition("@")
        raise SkerryError(
            f"{kind} '{reference}' was the function {own} (source {source}), given from Python: no "
            f"text holds it. Define it again and give the function itself, or name another {kind}."
        )
    module_name, _, attribute = reference.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise SkerryError(f"{kind} '{reference}' must read package.module:name.")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        absent = missing is not None and f"{module_name}.".startswith(f"{missing}.")
        fix = "Check its name and that it is on PYTHONPATH." if absent else "Correct the module."
        raise SkerryError(
            f"{kind} '{reference}' cannot be imported ({one_line(error)}). {fix}"
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        public = [name for name in vars(module) if not name.startswith("_")]
        raise SkerryError(
            f"{kind} '{reference}': module {module_name} has no '{attribute}'"
            f"{did_you_mean(attribute, public)}"
        ) from None
