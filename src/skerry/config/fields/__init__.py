"""The sections of an experiment: every field that a user can set, with its default and meaning."""

from skerry.config.fields.data import Data
from skerry.config.fields.evaluate import Evaluate
from skerry.config.fields.network import GRAPH_FILES, Availability, Network
from skerry.config.fields.server import Server
from skerry.config.fields.task import Model, Task
from skerry.config.fields.training import MethodChoice, Training

__all__ = [
    "GRAPH_FILES",
    "Availability",
    "Data",
    "Evaluate",
    "MethodChoice",
    "Model",
    "Network",
    "Server",
    "Task",
    "Training",
]
