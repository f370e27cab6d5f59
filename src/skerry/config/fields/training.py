"""The section [training]."""

from typing import Annotated, Literal

from skerry.config.fields.numbers import BelowOne, Count, NotNegative, Positive, Share
from skerry.config.section import Later, Named, Names, OptionOf, Section, usual
from skerry.plugins import registry


class Training(Section, extra="allow"):
    """What a device does on its own in a round."""

    batch: Count = 128
    """Samples in a minibatch."""
    stepsize: Positive = 0.1
    """Stepsize of local SGD (eta)."""
    schedule: Annotated[Named, Names("schedule")] = usual("constant")
    """How the stepsize changes over the rounds: constant, step, cosine, inverse_sqrt."""
    decay_every: Annotated[Count, OptionOf("schedule")] = 30
    """Rounds between the drops of the step schedule."""
    decay_factor: Annotated[Share, OptionOf("schedule")] = 0.1
    """Factor of each drop of the step schedule."""
    local_steps: Count = 1
    """SGD steps on every device between two mixings."""
    order: Annotated[Literal["adapt_then_mix", "mix_then_adapt"], Later()] = "adapt_then_mix"
    """adapt_then_mix: W (X - eta G(X)); mix_then_adapt: W X - eta G(X)."""
    weights: Annotated[Literal["equal", "data"], Later()] = "equal"
    """How devices count: equal, or by their data: the stepsize of each is multiplied by its share
    of all samples times the number of devices, so that the data-weighted loss goes down."""
    optimizer: Annotated[Named, Names("local optimizer"), Later()] = usual("sgd")
    """What devices make of their gradients: sgd (nothing), momentum, adam, or your own
    "package.module:function". What it keeps stays on the device."""
    momentum: Annotated[BelowOne, OptionOf("local optimizer"), Later()] = 0.9
    """momentum and adam: how much of the earlier gradients stays."""
    second_momentum: Annotated[BelowOne, OptionOf("local optimizer"), Later()] = 0.999
    """adam: how much of the earlier squares stays."""
    smallest: Annotated[Positive, OptionOf("local optimizer"), Later()] = 1e-8
    """adam: added to the root of the squares."""
    weight_decay: Annotated[NotNegative, Later()] = 0.0
    """So many times the model is added to every gradient."""
    sampling: Annotated[Named, Names("sampling")] = usual("replacement")
    """Minibatches: drawn with replacement, or shuffled epochs."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of the products in a step on a GPU: exact, or rounded for speed. Weights are float32."""

    def fields_of_a_lane(self) -> set[str]:
        """What lanes of one stack may differ in: the stepsize, its schedule and what that is told.
        Only a user's own sampling, which lanes share, might be told the further options too."""
        further = self.options if registry.is_builtin("sampling", self.sampling) else ()
        own = ("stepsize", "schedule", "order", "weights", "optimizer", "weight_decay")
        declared = ("schedule", "local optimizer")
        return {*own, *(o for kind in declared for o in self.options_declared(kind)), *further}

    @property
    def is_plain(self) -> bool:
        """Whether devices step along their gradients."""
        return self.optimizer == "sgd" and not self.weight_decay
