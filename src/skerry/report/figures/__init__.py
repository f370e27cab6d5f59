"""Figures: each function draws on a matplotlib axis and returns it; `save_figure` writes a file.

from matplotlib.figure import Figure
figure = Figure()
curves(skerry.load("runs"), "average_accuracy", figure.add_subplot())
save_figure(figure, Path("curves.pdf"))
"""

from skerry.report.figures.final_values import front, sensitivity
from skerry.report.figures.gaps import gap_heat_map
from skerry.report.figures.islands import device_positions, labels, network, network_figure
from skerry.report.figures.predictions import server_ratios
from skerry.report.figures.rounds import cost, curves, overview
from skerry.report.figures.timelines import timeline
from skerry.report.style import paper, save_figure

__all__ = [
    "cost", "curves", "device_positions", "front", "gap_heat_map", "labels", "network",
    "network_figure", "overview", "paper", "save_figure", "sensitivity", "server_ratios",
    "timeline",
]  # fmt: skip
