"""Figures: each function draws one thing on a matplotlib axis and returns it; `save` writes files.

from matplotlib.figure import Figure
figure = Figure()
curves(skerry.load("runs"), "average_accuracy", figure.add_subplot())
save(figure, Path("curves.pdf"))
"""

from skerry.report.figures.bounds import bound
from skerry.report.figures.files import save
from skerry.report.figures.fronts import front
from skerry.report.figures.gaps import gap_heat_map
from skerry.report.figures.islands import labels, network, network_picture, places
from skerry.report.figures.rounds import cost, curves, overview
from skerry.report.figures.sensitivities import sensitivity

__all__ = [
    "bound",
    "cost",
    "curves",
    "front",
    "gap_heat_map",
    "labels",
    "network",
    "network_picture",
    "overview",
    "places",
    "save",
    "sensitivity",
]
