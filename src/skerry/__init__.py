"""Semi-decentralized federated learning: S2S, S2A, and the dial between them.

import skerry
results = skerry.run(skerry.Experiment(), compare=["s2s", "s2a", "blend:0.5"], seeds=3)
print(results.summary("average_accuracy", "own_accuracy"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.advice.advise import Advice, advise
    from skerry.analysis.answers import results
    from skerry.analysis.devices import devices
    from skerry.analysis.recorded import finals, load
    from skerry.analysis.results import Lane, Results
    from skerry.config.experiment import (
        Data,
        Evaluate,
        Experiment,
        Model,
        Network,
        Server,
        Task,
        Training,
    )
    from skerry.data.sources.catalog import from_arrays, from_devices, from_torch
    from skerry.data.sources.huggingface import from_flower, from_huggingface
    from skerry.errors import SkerryError
    from skerry.report.page.build import write_report
    from skerry.runs.progress import Watcher
    from skerry.runs.run import run
    from skerry.runs.sweep import Sweep

# Names are imported when they are first used: `import skerry` stays quick, torch comes with a run.
_HOME = {
    "Advice": "skerry.advice.advise",
    "Data": "skerry.config.experiment",
    "Evaluate": "skerry.config.experiment",
    "Experiment": "skerry.config.experiment",
    "Lane": "skerry.analysis.results",
    "Model": "skerry.config.experiment",
    "Network": "skerry.config.experiment",
    "Results": "skerry.analysis.results",
    "Server": "skerry.config.experiment",
    "SkerryError": "skerry.errors",
    "Sweep": "skerry.runs.sweep",
    "Task": "skerry.config.experiment",
    "Training": "skerry.config.experiment",
    "Watcher": "skerry.runs.progress",
    "advise": "skerry.advice.advise",
    "devices": "skerry.analysis.devices",
    "finals": "skerry.analysis.recorded",
    "from_arrays": "skerry.data.sources.catalog",
    "from_devices": "skerry.data.sources.catalog",
    "from_flower": "skerry.data.sources.huggingface",
    "from_huggingface": "skerry.data.sources.huggingface",
    "from_torch": "skerry.data.sources.catalog",
    "load": "skerry.analysis.recorded",
    "run": "skerry.runs.run",
    "results": "skerry.analysis.answers",
    "write_report": "skerry.report.page.build",
}

__all__ = [
    "Advice",
    "Data",
    "Evaluate",
    "Experiment",
    "Lane",
    "Model",
    "Network",
    "Results",
    "Server",
    "SkerryError",
    "Sweep",
    "Task",
    "Training",
    "Watcher",
    "advise",
    "devices",
    "finals",
    "from_arrays",
    "from_devices",
    "from_flower",
    "from_huggingface",
    "from_torch",
    "load",
    "results",
    "run",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("skerry")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'skerry' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
