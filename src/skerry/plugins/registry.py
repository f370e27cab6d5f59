"""What can be named in an experiment: one literal dict per kind, each name a lazy reference.

A built-in name and a user's own `"package.module:name"` go through the same door, `resolve`.
To add a built-in: write the function, add its line here; the contract tests cover the rest.
"""

import hashlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skerry.errors import SkerryError, did_you_mean, one_line, unknown
from skerry.plugins import callables

TOPOLOGIES = {
    "barabasi_albert": "skerry.network.topologies:barabasi_albert",
    "complete": "skerry.network.topologies:complete",
    "erdos_renyi": "skerry.network.topologies:erdos_renyi",
    "grid": "skerry.network.topologies:grid",
    "path": "skerry.network.topologies:path",
    "regular": "skerry.network.topologies:regular",
    "ring": "skerry.network.topologies:ring",
    "star": "skerry.network.topologies:star",
    "torus": "skerry.network.topologies:torus",
    "watts_strogatz": "skerry.network.topologies:watts_strogatz",
}

MIXING = {
    "laplacian": "skerry.network.mixing:laplacian",
    "lazy": "skerry.network.mixing:lazy",
    "max_degree": "skerry.network.mixing:max_degree",
    "metropolis": "skerry.network.mixing:metropolis",
}

DATASETS = {
    "cifar10": "skerry.data.sources.catalog:cifar10",
    "cifar100": "skerry.data.sources.catalog:cifar100",
    "devices": "skerry.data.sources.catalog:devices",
    "digits": "skerry.data.sources.catalog:digits",
    "fashion_mnist": "skerry.data.sources.catalog:fashion_mnist",
    "mnist": "skerry.data.sources.catalog:mnist",
    "npz": "skerry.data.sources.catalog:npz",
    "speeches": "skerry.data.sources.natural:speeches",
    "synthetic": "skerry.data.sources.synthetic:classes",
    "synthetic_regression": "skerry.data.sources.synthetic:regression",
    "synthetic_tokens": "skerry.data.sources.synthetic:tokens",
    "vowels": "skerry.data.sources.natural:vowels",
}

INTER_PARTITIONS = {
    "dirichlet": "skerry.data.partition:inter_dirichlet",
    "iid": "skerry.data.partition:inter_iid",
    "non_iid": "skerry.data.partition:inter_non_iid",
}

INTRA_PARTITIONS = {
    "dirichlet": "skerry.data.partition:intra_dirichlet",
    "iid": "skerry.data.partition:intra_iid",
    "shards": "skerry.data.partition:intra_shards",
}

SAMPLINGS = {
    "epochs": "skerry.data.batches:ShuffledEpochs",
    "replacement": "skerry.data.batches:WithReplacement",
}

MODELS = {
    "cnn_cifar10": "skerry.models.networks:cnn_cifar10",
    "cnn_cifar100": "skerry.models.networks:cnn_cifar100",
    "gru": "skerry.models.sequences:gru",
    "linear": "skerry.models.linear:linear",
    "mlp": "skerry.models.networks:mlp",
    "quadratic": "skerry.models.quadratic:quadratic",
    "transformer": "skerry.models.sequences:transformer",
}

LOSSES = {
    "cross_entropy": "skerry.tasks.losses:cross_entropy",
    "huber": "skerry.tasks.losses:huber",
    "mae": "skerry.tasks.losses:mae",
    "mse": "skerry.tasks.losses:mse",
}

SCORES = {
    "top5": "skerry.tasks.losses:top5",
}

SCHEDULES = {
    "constant": "skerry.engine.schedules:constant",
    "cosine": "skerry.engine.schedules:cosine",
    "inverse_sqrt": "skerry.engine.schedules:inverse_sqrt",
    "step": "skerry.engine.schedules:step",
}

PRIMITIVES = {
    "blend": "skerry.engine.primitives:blend",
    "none": "skerry.engine.primitives:none",
    "s2a": "skerry.engine.primitives:s2a",
    "s2s": "skerry.engine.primitives:s2s",
}

LOCAL_OPTIMIZERS = {
    "adam": "skerry.engine.local_optimizers:adam",
    "momentum": "skerry.engine.local_optimizers:momentum",
    "sgd": "skerry.engine.local_optimizers:sgd",
}

OPTIMIZERS = {
    "fedadam": "skerry.engine.server:FedAdam",
    "fedavg": "skerry.engine.server:FedAvg",
    "fedavgm": "skerry.engine.server:FedAvgM",
    "fedavgm_averages": "skerry.engine.server:FedAvgMOfAverages",
    "fedyogi": "skerry.engine.server:FedYogi",
}

COMPRESSIONS = {
    "int8": "skerry.engine.compression:Int8",
    "none": "skerry.engine.compression:Compression",
    "random_k": "skerry.engine.compression:RandomK",
    "top_k": "skerry.engine.compression:TopK",
}

METHODS = {
    "carry": "skerry.methods.corrections:Carry",
    "fedprox": "skerry.methods.corrections:FedProx",
    "fedvarp": "skerry.methods.tables:FedVarp",
    "gradient_tracking": "skerry.methods.tracking:GradientTracking",
    "mifa": "skerry.methods.tables:Mifa",
    "mtgc": "skerry.methods.corrections:Mtgc",
    "scaffold": "skerry.methods.corrections:Scaffold",
    "sd_gt": "skerry.methods.tracking:SdGt",
    "sgd": "skerry.methods.method:Method",
}

SELECTIONS = {
    "bernoulli": "skerry.engine.participation.selection:bernoulli",
    "importance": "skerry.engine.participation.selection:importance",
    "one_each": "skerry.engine.participation.selection:one_each",
    "per_component": "skerry.engine.participation.selection:per_component",
    "round_robin": "skerry.engine.participation.selection:round_robin",
    "uniform": "skerry.engine.participation.selection:uniform",
    "weighted": "skerry.engine.participation.selection:weighted",
}

SERVER_SCHEDULES = {
    "constant": "skerry.config.schedules:constant",
    "cosine": "skerry.config.schedules:cosine",
    "double": "skerry.config.schedules:double",
    "inverse_sqrt": "skerry.config.schedules:inverse_sqrt",
    "step": "skerry.config.schedules:step",
    "switch": "skerry.config.schedules:switch",
}

BETA_SCHEDULES = {**SERVER_SCHEDULES, "adaptive": "skerry.theory.adaptive:beta"}
SAMPLED_SCHEDULES = {**SERVER_SCHEDULES, "adaptive": "skerry.theory.adaptive:sampled"}
PERIOD_SCHEDULES = {**SERVER_SCHEDULES, "adaptive": "skerry.theory.adaptive:period"}

TRACKERS = {
    "mlflow": "skerry.runs.tracking:MLflow",
    "tensorboard": "skerry.runs.tracking:TensorBoard",
    "wandb": "skerry.runs.tracking:WandB",
}

EXECUTORS = {
    "here": "skerry.runs.executors.here:Here",
    "processes": "skerry.runs.executors.processes:Processes",
    "ray": "skerry.runs.executors.ray:OnRay",
}

VIEWS = {
    "plot": "skerry.report.notebook:plot",
    "progress": "skerry.report.notebook:progress",
    "bound": "skerry.report.notebook:html_of_bound",
    "experiment": "skerry.report.notebook:html_of_experiment",
    "lane": "skerry.report.notebook:html_of_lane",
    "results": "skerry.report.notebook:html_of_results",
}
"""What lower layers show of themselves, and who draws it when somebody looks."""

KINDS = {
    "topology": TOPOLOGIES,
    "mixing": MIXING,
    "dataset": DATASETS,
    "inter partition": INTER_PARTITIONS,
    "intra partition": INTRA_PARTITIONS,
    "sampling": SAMPLINGS,
    "model": MODELS,
    "loss": LOSSES,
    "score": SCORES,
    "schedule": SCHEDULES,
    "local optimizer": LOCAL_OPTIMIZERS,
    "primitive": PRIMITIVES,
    "compression": COMPRESSIONS,
    "method": METHODS,
    "selection": SELECTIONS,
    "beta schedule": BETA_SCHEDULES,
    "sampled schedule": SAMPLED_SCHEDULES,
    "period schedule": PERIOD_SCHEDULES,
    "server optimizer": OPTIMIZERS,
    "executor": EXECUTORS,
    "tracker": TRACKERS,
}

GIVEN = "given"
"""The name of what no text can hold, in the experiment that is recorded with a run."""
GIVEN_AS = {"topology": "graph", "dataset": "dataset", "model": "model"}
"""What can be given from Python, and the argument of `skerry.run` it is given as."""


def resolve(kind: str, name: str) -> Any:
    """The object behind a built-in name or a `package.module:name` reference."""
    fault = name_fault(kind, name)
    if fault:
        raise SkerryError(fault)
    if is_given(kind, name):
        raise SkerryError(
            f"{kind} '{name}' is not in the experiment: it is given from Python. Call "
            f"skerry.run(..., {GIVEN_AS[kind]}=...), or name a {kind}: {', '.join(KINDS[kind])}."
        )
    return _load(kind, KINDS.get(kind, {}).get(name, name))


def view(name: str) -> Any:
    return _load("view", VIEWS[name])


def is_builtin(kind: str, name: str) -> bool:
    return name in KINDS.get(kind, ())


def is_given(kind: str, name: str) -> bool:
    """Whether the name stands for something that is given from Python."""
    return name == GIVEN and kind in GIVEN_AS


def source(reference: str) -> str:
    """The hash of the file that a user's `package.module:name` comes from: with it in the content
    key, an edited plug-in is computed anew. Empty where the module is not here. A function given
    from Python tells its own."""
    if callables.is_given(reference):
        return callables.source(reference)
    try:
        module = importlib.import_module(reference.partition(":")[0])
        return hashlib.sha256(Path(module.__file__ or "").read_bytes()).hexdigest()[:16]
    except (Exception, SystemExit):  # a record of another machine may name what is not here
        return ""


def name_fault(kind: str, name: str) -> str | None:
    """Why `name` cannot be used as a `kind`, or None. Imports a user's reference, no built-in."""
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
def users_own(kind: str, name: str, told_as: type[SkerryError] = SkerryError) -> Iterator[None]:
    """Whatever a user's own code raises is told as one line; a fault of a built-in is a bug, and
    stays what it is."""
    try:
        yield
    except SkerryError:
        raise
    except Exception as error:  # a user's code may fail in any way
        if is_builtin(kind, name):
            raise
        raise told_as(
            f"{kind} '{name}' failed ({one_line(error)}). Correct the function; skerry --debug "
            "shows where it fails."
        ) from error


def _load(kind: str, reference: str) -> Any:
    if callables.is_given(reference):
        return _held(kind, reference)
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


def _held(kind: str, name: str) -> Any:
    found = callables.held(name)
    if found is None:
        own, _, source = name.removeprefix(callables.PREFIX).rpartition("@")
        raise SkerryError(
            f"{kind} '{name}' was the function {own} (source {source}), given from Python: no text "
            f"holds it. Define it again and give the function itself, or name another {kind}."
        )
    return found
