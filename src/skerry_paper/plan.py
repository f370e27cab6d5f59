"""The grid of runs of one study, and the paper's settings that all studies share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal

from skerry.config.experiment import Experiment
from skerry.errors import SkerryError
from skerry.runs.sweep import Sweep
from skerry_paper.printed import REGIMES

Profile = Literal["quick", "full"]
Axes = Mapping[str, Sequence[Any]]
"""The axes of a sweep: values by field."""

DEVICES = 100
STEPSIZES = (10**-2.5, 0.01, 10**-1.5, 0.1)
SAMPLED = (20, 40, 60, 80)
"""Sampled devices K in the tables; the figures add K = 100, where S2S and S2A are the same."""
SAMPLED_OR_ALL = (*SAMPLED, DEVICES)
PERIODS = (5, 10, 15, 20)
TOPOLOGIES = ("complete", "grid", "ring")
BOTH = ("s2s", "s2a")
BETAS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)

INTRA = {"iid": "iid", "non-iid": "dirichlet"}
INTER = {"iid": "iid", "non-iid": "non_iid"}
SPLITS = {name: (INTRA[intra], INTER[inter]) for name, (intra, inter) in REGIMES.items()}
"""data.intra and data.inter of each regime."""
CORNERS: Axes = {"network.topology": ("ring",), "server.sampled": (20,), "server.period": (5, 20)}
"""A few cells of the paper's grid, in every regime."""
SETTING: dict[str, Any] = {
    "rounds": 100,
    "network": {"devices": DEVICES, "components": 2},
    "data": {"alpha": 0.1},
    "training": {"batch": 128},
}
"""What all runs of the reproduction share."""


@dataclass(frozen=True)
class StudyPlan:
    """The grid of runs of one study, in full and in the quick profile."""

    name: str
    about: str
    base: Sequence[Mapping[str, Any]]
    """Tables of experiment fields that all runs share, beyond SETTING; later ones win."""
    axes: Axes
    seeds: tuple[int, int]
    """Number of seeds in the full and in the quick profile."""
    quick_axes: Axes = field(default_factory=dict)
    """Shorter axes of the quick profile."""
    quick_base: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the quick profile changes."""
    quick_note: str = ""
    """A sentence on what the quick profile omits, if it is more than seeds."""
    curves: tuple[str, ...] = ()
    """Measures that are kept for every round."""
    constants: bool = False
    """Whether the theory's constants are measured on its problems."""

    @property
    def dataset(self) -> str:
        return str(merge_tables(*self.base)["data"]["dataset"])

    @property
    def omissions(self) -> str:
        """A sentence on what the quick profile omits."""
        words = {1: "one seed", 2: "two", 3: "three", 5: "five"}
        full, quick = (words[count] for count in self.seeds)
        return self.quick_note or f"Quick runs {quick} instead of {full}."

    def slice_axes(self, profile: Profile, only: Axes) -> dict[str, list[Any]]:
        """The axes of the grid, shortened to the values in `only`."""
        axes = {**self.axes, **(self.quick_axes if profile == "quick" else {})}
        for name, values in only.items():
            if name not in axes:
                raise SkerryError(f"{name} is not an axis of the study {self.name}.")
            axes[name] = [value for value in values if value in axes[name]]
        return {name: list(values) for name, values in axes.items()}

    def seed_count(self, profile: Profile) -> int:
        return self.seeds[profile == "quick"]

    def grid_points(self, profile: Profile, only: Axes) -> set[tuple[Any, ...]]:
        """The axis values and the seed of every run of a slice."""
        return {*product(*self.slice_axes(profile, only).values(), range(self.seed_count(profile)))}

    def experiments(
        self, profile: Profile, only: Axes, settings: Sequence[str] = ()
    ) -> list[Experiment]:
        """The runs of a slice; `settings` are further `field=value` texts."""
        axes = self.slice_axes(profile, only)
        if not all(axes.values()):
            return []
        table = merge_tables(
            SETTING,
            {"name": f"Reproduction: {self.about}"},
            *self.base,
            self.quick_base if profile == "quick" else {},
            {"sweep": {"axes": axes, "seeds": self.seed_count(profile)}},
        )
        return Sweep.parse(table, settings).runs()


def merge_tables(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables of experiment fields section by section; later tables win."""
    merged: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
            merged[name] = {**merged[name], **value} if both else value
    return merged
