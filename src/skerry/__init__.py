"""Semi-decentralized federated learning: S2S, S2A, and the dial between them.

import skerry
results = skerry.run(skerry.Experiment(), compare=["s2s", "s2a", "blend:0.5"], seeds=3)
print(results.summary("average_accuracy", "own_accuracy"))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.advice.advise import Advice, advise
    from skerry.analysis.device_results import devices
    from skerry.analysis.results import Lane, Results
    from skerry.analysis.run_table import finals, load, results
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
    from skerry.data.by_device.from_python import from_flower, from_huggingface
    from skerry.data.sources.catalog import from_arrays, from_devices, from_torch
    from skerry.errors import SkerryError
    from skerry.report.page.build import write_report
    from skerry.runs.progress import Progress
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
    "Progress": "skerry.runs.progress",
    "Results": "skerry.analysis.results",
    "Server": "skerry.config.experiment",
    "SkerryError": "skerry.errors",
    "Sweep": "skerry.runs.sweep",
    "Task": "skerry.config.experiment",
    "Training": "skerry.config.experiment",
    "advise": "skerry.advice.advise",
    "devices": "skerry.analysis.device_results",
    "finals": "skerry.analysis.run_table",
    "from_arrays": "skerry.data.sources.catalog",
    "from_devices": "skerry.data.sources.catalog",
    "from_flower": "skerry.data.by_device.from_python",
    "from_huggingface": "skerry.data.by_device.from_python",
    "from_torch": "skerry.data.sources.catalog",
    "load": "skerry.analysis.run_table",
    "run": "skerry.runs.run",
    "results": "skerry.analysis.run_table",
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
    "Progress",
    "Results",
    "Server",
    "SkerryError",
    "Sweep",
    "Task",
    "Training",
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
