"""The sections of an experiment, each in a file of its name: every field that a user can type, with
its default and meaning."""

from skerry.sections.data import Data
from skerry.sections.evaluate import Evaluate
from skerry.sections.fleet import Fleet
from skerry.sections.method import Method
from skerry.sections.model import Model
from skerry.sections.network import GRAPH_FILES, Network
from skerry.sections.numbers import AtLeastOne, AtLeastZero, Count
from skerry.sections.server import Server
from skerry.sections.task import Task
from skerry.sections.training import Training

__all__ = [
    "GRAPH_FILES",
    "AtLeastOne",
    "AtLeastZero",
    "Count",
    "Data",
    "Evaluate",
    "Fleet",
    "Method",
    "Model",
    "Network",
    "Server",
    "Task",
    "Training",
]
