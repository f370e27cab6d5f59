"""Semi-decentralized federated learning: S2S, S2A, and blends of the two.

import skerry
results = skerry.run(skerry.Experiment(), compare=["s2s", "s2a", "blend:0.5"], seeds=3)
print(results.summary("average_accuracy", "own_accuracy"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry import theory as theory
    from skerry.advice.advise import Advice as Advice
    from skerry.advice.advise import advise as advise
    from skerry.analysis.device_results import devices as devices
    from skerry.analysis.results import Lane as Lane
    from skerry.analysis.results import Results as Results
    from skerry.analysis.run_table import finals as finals
    from skerry.analysis.run_table import load as load
    from skerry.analysis.run_table import results as results
    from skerry.config.experiment import Experiment as Experiment
    from skerry.config.fields import Availability as Availability
    from skerry.config.fields import ClockChoice as ClockChoice
    from skerry.config.fields import Data as Data
    from skerry.config.fields import Evaluate as Evaluate
    from skerry.config.fields import MethodChoice as MethodChoice
    from skerry.config.fields import Model as Model
    from skerry.config.fields import Network as Network
    from skerry.config.fields import Server as Server
    from skerry.config.fields import Task as Task
    from skerry.config.fields import Training as Training
    from skerry.config.presets import PRESETS as PRESETS
    from skerry.config.presets import with_preset as with_preset
    from skerry.data.by_device.from_python import from_devices as from_devices
    from skerry.data.by_device.from_python import from_flower as from_flower
    from skerry.data.by_device.from_python import from_huggingface as from_huggingface
    from skerry.data.partition import split as split
    from skerry.data.sources.arrays import from_arrays as from_arrays
    from skerry.data.sources.arrays import from_torch as from_torch
    from skerry.data.sources.catalog import load_dataset as load_dataset
    from skerry.engine.compression import Compression as Compression
    from skerry.errors import SkerryError as SkerryError
    from skerry.methods.method import Aggregation as Aggregation
    from skerry.methods.method import Lanes as Lanes
    from skerry.methods.method import Method as Method
    from skerry.methods.method import Mixing as Mixing
    from skerry.methods.method import Traffic as Traffic
    from skerry.models.learner import Problem as Problem
    from skerry.plugins.context import Context as Context
    from skerry.plugins.context import Parameter as Parameter
    from skerry.report import figures as figures
    from skerry.report import page as page
    from skerry.report.page.build import write_report as write_report
    from skerry.runs.executors.here import Here as Here
    from skerry.runs.progress import Progress as Progress
    from skerry.runs.run import run as run
    from skerry.runs.sweep import Sweep as Sweep
    from skerry.theory.constants import measure_constants as measure_constants

_NAMES = {
    "skerry.advice.advise": "Advice advise",
    "skerry.analysis.device_results": "devices",
    "skerry.analysis.results": "Lane Results",
    "skerry.analysis.run_table": "finals load results",
    "skerry.config.experiment": "Experiment",
    "skerry.config.fields": "Availability ClockChoice Data Evaluate MethodChoice Model Network "
    "Server Task Training",
    "skerry.config.presets": "PRESETS with_preset",
    "skerry.data.by_device.from_python": "from_devices from_flower from_huggingface",
    "skerry.data.partition": "split",
    "skerry.data.sources.arrays": "from_arrays from_torch",
    "skerry.data.sources.catalog": "load_dataset",
    "skerry.engine.compression": "Compression",
    "skerry.errors": "SkerryError",
    "skerry.methods.method": "Aggregation Lanes Method Mixing Traffic",
    "skerry.models.learner": "Problem",
    "skerry.plugins.context": "Context Parameter",
    "skerry.report.page.build": "write_report",
    "skerry.runs.executors.here": "Here",
    "skerry.runs.progress": "Progress",
    "skerry.runs.run": "run",
    "skerry.runs.sweep": "Sweep",
    "skerry.theory.constants": "measure_constants",
}
"""Public names by module. They are imported when they are first used: `import skerry` stays quick,
and torch comes with a run."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {
    "figures": "skerry.report.figures",
    "page": "skerry.report.page",
    "theory": "skerry.theory",
}
"""Modules that are reached as `skerry.theory` and so on."""
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("skerry")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'skerry' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
