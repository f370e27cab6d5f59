"""The section [method]."""

from typing import Annotated, Literal

from skerry.config.fields.numbers import NotNegative
from skerry.config.section import Later, Named, Names, OptionOf, Section, usual


class Method(Section, extra="allow"):
    """What devices and the server keep beside a model."""

    name: Annotated[Named, Names("method"), Later()] = usual("sgd")
    """What devices do beside plain SGD: sgd (nothing), gradient_tracking, sd_gt, mtgc, scaffold,
    fedvarp, mifa, fedprox, carry, or your own "package.module:Class"."""
    mu: Annotated[NotNegative, OptionOf("method"), Later()] = 0.01
    """fedprox: how strongly a device is pulled back to the model it received last."""
    tracker: Annotated[Literal["s2s", "s2a", "home"], OptionOf("method"), Later()] = "s2s"
    """gradient_tracking: how Y goes to the server. Only s2s keeps its mean; s2a and home, which
    leaves it on the devices, are there to see what that is worth."""

    @property
    def is_plain(self) -> bool:
        return self.name == "sgd"
