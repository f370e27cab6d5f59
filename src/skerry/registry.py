"""What can be named in an experiment: one literal dict per kind, each name a lazy reference.

A built-in name and a user's own `"package.module:name"` go through the same door, `resolve`.
To add a built-in: write the function, add its line here; the contract tests cover the rest.
"""

import importlib
import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from skerry.errors import SkerryError, unknown

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
    "cifar10": "skerry.data.catalog:cifar10",
    "cifar100": "skerry.data.catalog:cifar100",
    "digits": "skerry.data.catalog:digits",
    "fashion_mnist": "skerry.data.catalog:fashion_mnist",
    "mnist": "skerry.data.catalog:mnist",
    "npz": "skerry.data.catalog:npz",
    "synthetic": "skerry.data.catalog:synthetic",
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
    "linear": "skerry.models.linear:linear",
    "mlp": "skerry.models.networks:mlp",
    "quadratic": "skerry.models.quadratic:quadratic",
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

OPTIMIZERS = {
    "fedavg": "skerry.engine.server:FedAvg",
    "fedavgm": "skerry.engine.server:FedAvgM",
}

KINDS = {
    "topology": TOPOLOGIES,
    "mixing": MIXING,
    "dataset": DATASETS,
    "inter partition": INTER_PARTITIONS,
    "intra partition": INTRA_PARTITIONS,
    "sampling": SAMPLINGS,
    "model": MODELS,
    "schedule": SCHEDULES,
    "primitive": PRIMITIVES,
    "server optimizer": OPTIMIZERS,
}


def resolve(kind: str, name: str) -> Any:
    """The object behind a built-in name or a `package.module:name` reference."""
    fault = name_fault(kind, name)
    if fault:
        raise SkerryError(fault)
    return _load(kind, KINDS[kind].get(name, name))


def name_fault(kind: str, name: str) -> str | None:
    """Why `name` cannot be used as a `kind`, or None. Imports a user's reference, no built-in."""
    if name in KINDS[kind]:
        return None
    if ":" not in name:
        return unknown(kind, name, KINDS[kind])
    try:
        _load(kind, name)
    except SkerryError as error:
        return str(error)
    return None


def option_faults(kind: str, name: str, options: Collection[str]) -> list[str]:
    """One line for every option that the named object does not take."""
    if not options:
        return []  # the object is imported only where there is something to check
    accepted, takes_any = keyword_options(resolve(kind, name))
    return (
        []
        if takes_any
        else [_option_fault(kind, name, o, accepted) for o in options if o not in accepted]
    )


def keyword_options(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """The keyword-only parameters of a plug-in (its options), and whether it takes any others."""
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    return names, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _option_fault(kind: str, name: str, option: str, accepted: list[str]) -> str:
    close = get_close_matches(option, accepted, n=1, cutoff=0.5)
    hint = f"; did you mean '{close[0]}'?" if close else "."
    takes = f"It takes: {', '.join(accepted)}." if accepted else "It takes none."
    return f"{kind} '{name}' has no option '{option}'{hint} {takes}"


def _load(kind: str, reference: str) -> Any:
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a user's module may fail in any way
        raise SkerryError(
            f"{kind} '{reference}' cannot be imported ({type(error).__name__}: {error}). "
            "Check the module's name and that it is on PYTHONPATH."
        ) from error
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise SkerryError(
            f"{kind} '{reference}': module {module_name} has no '{attribute}'."
        ) from None
