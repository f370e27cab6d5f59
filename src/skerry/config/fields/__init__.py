"""The sections of an experiment, each in a file of its name: every field that a user can type, with
its default and meaning."""

from skerry.config.fields.availability import Fleet
from skerry.config.fields.data import Data
from skerry.config.fields.evaluate import Evaluate
from skerry.config.fields.method import Method
from skerry.config.fields.model import Model
from skerry.config.fields.network import GRAPH_FILES, Network
from skerry.config.fields.numbers import AtLeastOne, AtLeastZero, Count
from skerry.config.fields.server import Server
from skerry.config.fields.task import Task
from skerry.config.fields.training import Training

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
