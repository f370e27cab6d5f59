"""The sections of an experiment: every field that a user can set, with its default and meaning."""

from skerry.config.fields.clock import ClockChoice as ClockChoice
from skerry.config.fields.data import Data as Data
from skerry.config.fields.evaluate import Evaluate as Evaluate
from skerry.config.fields.network import Availability as Availability
from skerry.config.fields.network import Network as Network
from skerry.config.fields.server import Server as Server
from skerry.config.fields.task import Model as Model
from skerry.config.fields.task import Task as Task
from skerry.config.fields.training import MethodChoice as MethodChoice
from skerry.config.fields.training import Training as Training
