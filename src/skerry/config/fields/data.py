"""The section [data]."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from skerry.config.fields.numbers import Count, Positive
from skerry.config.section import Fault, Later, Named, Names, OptionOf, Section, usual
from skerry.plugins import registry

FILES = {
    "npz": "a .npz file",
    "devices": "a table with a column device, or a folder with a file per device,",
}
"""The data sets that are nowhere but at a path."""
BY_DEVICE = ("devices", "speeches", "vowels")
"""Those that lie on devices."""


class Data(Section, extra="allow"):
    """Which samples there are, and who holds them."""

    dataset: Annotated[Named, Names("dataset")] = usual("digits")
    """digits, synthetic, synthetic_regression, synthetic_tokens, mnist, fashion_mnist, cifar10,
    cifar100, npz, devices, vowels, speeches, or your own function."""
    path: Annotated[str, OptionOf("dataset")] = ""
    """Where the data set lies, if you have it already (required for npz and devices)."""
    split: Annotated[Literal["dealt", "given"], Later()] = "dealt"
    """How samples come to devices: dealt (by inter and intra), or given, as they lie there: the
    data say which device holds them."""
    inter: Annotated[Named, Names("inter partition")] = usual("non_iid")
    """Split across components: iid, non_iid (disjoint sets of classes), dirichlet."""
    intra: Annotated[Named, Names("intra partition")] = usual("iid")
    """Split inside a component: iid, dirichlet, shards."""
    alpha: Annotated[Positive, OptionOf("inter partition", "intra partition")] = 0.1
    """Concentration of dirichlet splits: small is very different, large is alike."""
    inter_alpha: Annotated[Positive | None, OptionOf("inter partition")] = None
    """Concentration of the inter split, where it differs from alpha."""
    shards: Annotated[Count, OptionOf("intra partition")] = 2
    """Shards of sorted labels per device for intra = "shards"."""
    min_samples: Count = 1
    """Fewest training samples a device may have."""
    scaling: Literal["standard", "unit", "raw"] = "standard"
    """standard: minus the training mean, over the standard deviation; unit: raw [0, 1]; raw: as
    they are, whole numbers as such (for embeddings). Tokens are always raw."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            dataset: str | Callable[..., Any] = "digits",
            path: str = "",
            split: Literal["dealt", "given"] = "dealt",
            inter: str | Callable[..., Any] = "non_iid",
            intra: str | Callable[..., Any] = "iid",
            alpha: float = 0.1,
            inter_alpha: float | None = None,
            shards: int = 2,
            min_samples: int = 1,
            scaling: Literal["standard", "unit", "raw"] = "standard",
            **options: Any,
        ) -> None:
            """Further arguments are options of the data set and of the split."""

    @property
    def functions(self) -> dict[str, str]:
        """What is given is not dealt."""
        return super().functions if self.split == "dealt" else {"dataset": self.dataset}

    def faults(self) -> Iterable[Fault]:
        if self.dataset in FILES and not self.path:
            yield (
                ("data.dataset", "data.path"),
                f"data.path must name {FILES[self.dataset]} when data.dataset = "
                f'"{self.dataset}". Set data.path.',
            )
        if self.dataset in BY_DEVICE and "split" not in self.model_fields_set:
            yield (
                ("data.dataset", "data.split"),
                f'data.dataset = "{self.dataset}" says which device holds which samples. Set '
                'data.split = "given" to keep it so, or "dealt" to deal them out anew.',
            )

    def idle_fields(self) -> frozenset[str]:
        """`alpha` too, where inter_alpha takes its place and no device is dealt by it; with data
        that are given, all that says how to deal."""
        idle = super().idle_fields()
        if self.split == "given":
            return idle | {"inter", "intra", "alpha", "inter_alpha", "shards", "min_samples"}
        if self.inter != "dirichlet" or self.inter_alpha is None:
            return idle
        inside = registry.is_builtin("intra partition", self.intra)
        dealt_by_it = not inside or "alpha" in self.options_for("intra partition")
        return idle if dealt_by_it else idle | {"alpha"}
