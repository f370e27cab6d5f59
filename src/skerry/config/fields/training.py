"""The sections [training] and [method]: what devices do in a round."""

from collections.abc import Iterator
from typing import Annotated, Literal

from skerry.config.section import (
    BelowOne,
    Count,
    Fault,
    KeyedIfSet,
    Named,
    Names,
    NotNegative,
    OptionOf,
    Positive,
    Section,
    Share,
    default,
)
from skerry.plugins import registry


class Training(Section, extra="allow"):
    """Local training: what a device does on its own in a round."""

    batch: Count = 128
    """Samples in a minibatch."""
    stepsize: Positive = 0.1
    """Stepsize of local SGD (eta)."""
    schedule: Annotated[Named, Names("schedule")] = default("constant")
    """How the stepsize changes over the run: constant, step, cosine, inverse_sqrt, or your own."""
    decay_every: Annotated[Count, OptionOf("schedule")] = 30
    """Rounds between the drops of the step schedule."""
    decay_factor: Annotated[Share, OptionOf("schedule")] = 0.1
    """Factor of each drop of the step schedule."""
    local_steps: Count = 1
    """SGD steps on every device between two mixings."""
    local_epochs: Annotated[Count | None, KeyedIfSet()] = None
    """In the place of local_steps: passes of every device over its own samples between two mixings,
    each in a new order and in minibatches of `batch`, of which the last may be smaller."""
    order: Literal["adapt_then_mix", "mix_then_adapt"] = "adapt_then_mix"
    """adapt_then_mix: W (X - eta G(X)); mix_then_adapt: W X - eta G(X)."""
    weights: Literal["equal", "data"] = "equal"
    """Weights of devices: equal, or data: the stepsize of a device is multiplied by its share of
    all samples times the number of devices, so that the data-weighted loss is minimised."""
    optimizer: Annotated[Named, Names("local optimizer")] = default("sgd")
    """Optimizer of the local steps: sgd, momentum, adam, or your own "package.module:function". Its
    state stays on the device."""
    momentum: Annotated[BelowOne, OptionOf("local optimizer")] = 0.9
    """momentum and adam: decay rate of the mean of gradients."""
    second_momentum: Annotated[BelowOne, OptionOf("local optimizer")] = 0.999
    """adam: decay rate of the mean of squared gradients."""
    smallest: Annotated[Positive, OptionOf("local optimizer")] = 1e-8
    """adam: constant added to the root of the mean square."""
    weight_decay: NotNegative = 0.0
    """Weight decay: this multiple of the model is added to every gradient."""
    sampling: Annotated[Named, Names("sampling")] = default("replacement")
    """Minibatches: drawn with replacement, or shuffled epochs."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Precision of matrix products on a GPU: exact, or rounded for speed. Weights are float32."""

    def fields_of_a_lane(self) -> set[str]:
        """The fields in which lanes of one stack may differ: the stepsize, its schedule, the local
        optimizer and their options. A user's own sampling, which lanes share, may take the further
        options, too."""
        further = self.options if registry.is_builtin("sampling", self.sampling) else ()
        own = ("stepsize", "schedule", "order", "weights", "optimizer", "weight_decay")
        declared = ("schedule", "local optimizer")
        return {*own, *(o for kind in declared for o in self.options_declared(kind)), *further}

    def faults(self) -> Iterator[Fault]:
        """Fields that local epochs decide themselves."""
        if self.local_epochs is None:
            return
        decided = {
            "local_steps": (1, "it makes a device take as many steps as it has minibatches"),
            "sampling": ("replacement", "every pass goes through all samples in a new order"),
            "weights": ("equal", "steps in proportion to the data count them already"),
        }
        fixes = {"weights": "Leave it out; FedAvg's weights are server.weights=data"}
        for field, (value, why) in decided.items():
            if (got := getattr(self, field)) != value:
                yield (
                    ("training.local_epochs", f"training.{field}"),
                    f"training.local_epochs cannot be combined with training.{field} (got {got!r}):"
                    f" {why}. {fixes.get(field, 'Leave one of them out')}.",
                )

    @property
    def is_plain(self) -> bool:
        """Whether local steps are plain SGD without weight decay."""
        return self.optimizer == "sgd" and not self.weight_decay


class MethodChoice(Section, extra="allow"):
    """The method: what devices and the server store and send besides models."""

    name: Annotated[Named, Names("method")] = default("sgd")
    """What devices do besides plain SGD: sgd (nothing), gradient_tracking, sd_gt, mtgc, scaffold,
    fedvarp, mifa, fedprox, carry, or your own "package.module:Class"."""
    mu: Annotated[NotNegative, OptionOf("method")] = 0.01
    """fedprox: how strongly a device is pulled back to the model it received last."""
    tracker: Annotated[Literal["s2s", "s2a", "home"], OptionOf("method")] = "s2s"
    """gradient_tracking: the primitive by which the server averages Y. Only s2s keeps the mean of
    Y; s2a and home (Y stays on the devices) are for comparison."""

    @property
    def is_plain(self) -> bool:
        """Whether the method is plain SGD."""
        return self.name == "sgd"
