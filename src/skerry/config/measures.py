"""The table of measures: group, title, unit, direction, scale and range of each.

All code that ranks, prints, draws or exports a measure takes these facts from here.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

TASKS = ("classification", "regression", "tokens")


@dataclass(frozen=True)
class Measure:
    """A measure and all facts about it."""

    name: str
    group: str = ""
    """Measures of a group are computed together; users may name a group or single measures."""
    words: str = ""
    """Title without the unit; empty: the name."""
    short: str = ""
    """Short title for the axis of a small panel."""
    heading: str = ""
    """Title of a table column, with line breaks and unit."""
    unit: Literal["%", "messages", "bytes", "devices", "islands", "s", "J", ""] = ""
    better: Literal["higher", "lower"] = "lower"
    scale: Literal["linear", "log"] = "linear"
    """log: values span powers of ten."""
    range: tuple[float, float] = (0.0, float("inf"))
    """Smallest and largest possible value; intervals are clipped to it."""
    tasks: tuple[str, ...] = TASKS
    """Tasks for which it is measured."""

    @property
    def title(self) -> str:
        """The title with the unit."""
        return self._with_unit(self.words or self._name)

    @property
    def axis(self) -> str:
        """The title of an axis."""
        return self._with_unit(self.short or self.words or self._name)

    @property
    def lower_is_better(self) -> bool:
        return self.better == "lower"

    @property
    def is_percent(self) -> bool:
        return self.unit == "%"

    @property
    def is_count(self) -> bool:
        """Whether it is a whole number."""
        return self.unit in ("messages", "bytes", "devices", "islands")

    @property
    def _name(self) -> str:
        return self.name.replace("_", " ")

    def _with_unit(self, words: str) -> str:
        return f"{words} ({self.unit})" if self.unit in ("%", "s", "J") else words


_loss = Measure
_percent = partial(Measure, unit="%", better="higher", range=(0.0, 100.0))
_accuracy = partial(_percent, tasks=("classification",))
_device_loss = partial(Measure, group="devices", tasks=("regression", "tokens"))
_distance = partial(Measure, group="consensus", scale="log")
_messages = partial(Measure, group="communication", unit="messages")
_participation = partial(Measure, group="participation", better="higher")
_bytes = partial(Measure, group="communication", unit="bytes")
_clock = partial(Measure, group="clock")

MEASURES = {
    row.name: row
    for row in (
        _accuracy("average_accuracy", "average", words="average model, global test set",
            short="accuracy: average model", heading="average\nmodel %"),
        _loss("average_loss", "average", words="loss of the average model",
            heading="average\nloss"),
        Measure("average_rmse", "average", words="root mean squared error of the average model",
            short="RMSE: average model", heading="average\nRMSE", tasks=("regression",)),
        Measure("average_r2", "average", words="R² of the average model", heading="average\nR²",
            better="higher", range=(-float("inf"), 1.0), tasks=("regression",)),
        Measure("average_perplexity", "average", words="perplexity of the average model",
            short="perplexity: average", heading="average\nperplexity", range=(1.0, float("inf")),
            tasks=("tokens",)),
        _percent("average_token_accuracy", "average",
            words="next tokens that the average model gets right", short="tokens right: average",
            heading="tokens\nright %", tasks=("tokens",)),
        Measure("average_score", "average", words="your score of the average model",
            heading="average\nscore", better="higher", range=(-float("inf"), float("inf"))),
        _accuracy("device_accuracy", "devices", words="devices, global test set",
            short="accuracy: all labels", heading="devices,\nall data %"),
        _accuracy("device_accuracy_std", "devices", better="lower"),
        _accuracy("device_accuracy_min", "devices"),
        _accuracy("device_accuracy_max", "devices"),
        _accuracy("own_accuracy", "devices", words="devices, own label mix",
            short="accuracy: own labels", heading="devices,\nown labels %"),
        _accuracy("own_accuracy_weighted", "devices"),
        _accuracy("component_accuracy", "devices", words="devices, classes of their island",
            short="accuracy: island's labels"),
        _device_loss("device_loss", words="loss of devices, global test set",
            short="loss: all data", heading="devices,\nall data"),
        _device_loss("device_loss_std"),
        _device_loss("device_loss_min"),
        _device_loss("device_loss_max"),
        _device_loss("own_loss", words="loss of devices, own mix of data", short="loss: own data",
            heading="devices,\nown data"),
        _device_loss("own_loss_weighted"),
        _device_loss("component_loss", words="loss of devices, data of their island",
            short="loss: island's data"),
        _loss("train_loss", "training", words="minibatch loss"),
        _distance("disagreement", words="disagreement per device", heading="disagree-\nment"),
        _distance("disagreement_intra"),
        _distance("disagreement_inter"),
        _distance("disagreement_before"),
        _distance("disagreement_intra_before"),
        _distance("disagreement_inter_before"),
        _distance("bias", words="bias of the average"),
        _distance("disagreement_ratio", words="disagreement left by the server",
            short="disagreement left"),
        _distance("bias_ratio", words="disagreement turned into bias", short="bias / disagreement"),
        _messages("uplink_messages", words="messages to the server", heading="up"),
        _messages("downlink_messages", words="messages from the server", heading="down"),
        _messages("d2d_messages", words="messages between devices"),
        _bytes("uplink_bytes"),
        _bytes("downlink_bytes"),
        _bytes("d2d_bytes"),
        _accuracy("own_accuracy_worst_tenth", "fairness",
            words="worst tenth of the devices, own labels", short="accuracy: worst tenth",
            heading="worst\ntenth %"),
        _accuracy("own_accuracy_best_tenth", "fairness",
            words="best tenth of the devices, own labels", short="accuracy: best tenth",
            heading="best\ntenth %"),
        _accuracy("own_accuracy_island_gap", "fairness",
            words="best island ahead of the worst, own labels",
            short="accuracy: best - worst island", heading="between\nislands %", better="lower"),
        _loss("own_loss_worst_tenth", "fairness", words="loss of the worst tenth, own data"),
        _loss("own_loss_best_tenth", "fairness", words="loss of the best tenth, own data"),
        _loss("own_loss_island_gap", "fairness",
            words="loss of the worst island above that of the best"),
        _accuracy("label_mix_accuracy", "label_mix",
            words="devices, common test samples weighted by own labels",
            short="accuracy: own label mix", heading="devices,\nlabel mix %"),
        _loss("label_mix_loss", "label_mix", words="loss of devices, weighted by own labels"),
        _participation("awake_devices", unit="devices", words="devices awake"),
        _participation("sampled_devices", unit="devices", words="devices sampled"),
        _participation("sampled_islands", unit="islands", words="islands sampled"),
        _participation("sampled_fewest", unit="devices",
            words="fewest devices sampled of an island"),
        _participation("sampled_most", unit="devices", better="lower",
            words="most devices sampled of an island"),
        _clock("seconds", unit="s", words="seconds until the last device is done",
            short="time", heading="seconds"),
        _clock("seconds_mean", unit="s", words="seconds until a device is done, on average"),
        _clock("waiting", unit="%", range=(0.0, 100.0), words="share of the time that devices wait",
            short="waiting", heading="waiting\n%"),
        _clock("joules", unit="J", words="energy of all devices", heading="joules"),
        _clock("joules_max", unit="J", words="energy of the device that needs most"),
        _clock("joules_computing", unit="J", words="energy of computing, all devices"),
        _clock("joules_talking", unit="J", words="energy of sending and receiving, all devices"),
    )
}  # fmt: skip

GROUPS = {
    group: tuple(row.name for row in MEASURES.values() if row.group == group)
    for group in dict.fromkeys(row.group for row in MEASURES.values())
}


BYTES_PER_PARAMETER = 4  # models travel as float32
LINKS = ("uplink", "downlink", "d2d")
COSTS = {
    "rounds": ("round",),
    "messages": ("uplink_messages", "downlink_messages"),
    "bytes": ("uplink_bytes", "downlink_bytes"),
    "all_messages": tuple(f"{link}_messages" for link in LINKS),
    "all_bytes": tuple(f"{link}_bytes" for link in LINKS),
    "seconds": ("seconds",),
    "joules": ("joules",),
}
"""By name, what a score may cost, and the columns that add up to it: messages and bytes are those
of the server, or with `all_` those between devices, too."""

NOT_USUAL = ("participation", "fairness", "label_mix", "clock")
USUAL = tuple(group for group in GROUPS if group not in NOT_USUAL)
"""Groups that are measured by default."""


HIGHER = ("accuracy", "score", "share")
"""Endings of names of users' own measures of which more is better."""


def shown(measure: str, measured: Collection[str]) -> str:
    """The measure, or the loss in place of an accuracy that was not measured: own_loss for
    own_accuracy."""
    return measure if measure in measured else measure.replace("accuracy", "loss")


def headline(measured: Collection[str]) -> str:
    """The most important of the measures that runs have; empty if there are none."""
    first = shown("average_accuracy", measured)
    return first if first in measured else next(iter(measured), "")


def task_of(measured: Collection[str]) -> str:
    """The task of runs with these measures; empty if it cannot be inferred."""
    known = (MEASURES[name].tasks for name in measured if name in MEASURES)
    return next((tasks[0] for tasks in known if len(tasks) == 1), "")


def own_name(reference: str) -> str:
    """The recorded name of a user's own measure: `drift` of "my_parts:drift"."""
    return reference.partition(":")[2].partition("@")[0]


def traits(measure: str) -> Measure:
    """The facts about a measure; those of a user's own follow from its name. A measure under one
    of several clocks is named as in `seconds@wifi_home`."""
    base, _, clock = measure.partition("@")
    if clock and base in MEASURES:
        known = MEASURES[base]
        return replace(known, name=measure, words=f"{known.words}, {clock}", short="")
    higher = measure.endswith(HIGHER)
    return MEASURES.get(measure) or Measure(
        measure, better="higher" if higher else "lower", range=(-float("inf"), float("inf"))
    )
