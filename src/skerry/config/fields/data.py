"""The section [data]: the data set, and how samples are assigned to devices."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from skerry.config.section import (
    Count,
    Fault,
    KeyedIfSet,
    Named,
    Names,
    OptionOf,
    Positive,
    Section,
    Share,
    default,
)
from skerry.plugins import registry


class Data(Section, extra="allow"):
    """The data set, and how its samples are assigned to devices."""

    dataset: Annotated[Named, Names("dataset")] = default("digits")
    """digits, synthetic, synthetic_regression, synthetic_tokens, mnist, fashion_mnist, cifar10,
    cifar100, npz, devices, vowels, speeches, or your own function."""
    path: Annotated[str, OptionOf("dataset")] = ""
    """Path of the data set, if it is on this machine (required for npz and devices). A relative
    path in an experiment file starts from the folder of the file; if nothing is there, from the
    current folder. In a setting, it starts from the current folder."""
    split: Literal["dealt", "given"] = "dealt"
    """How samples are assigned to devices: dealt (by inter and intra), or given (the data say which
    device holds which samples)."""
    inter: Annotated[Named, Names("inter partition")] = default("non_iid")
    """Split across islands: iid, non_iid (disjoint sets of classes), dirichlet."""
    intra: Annotated[Named, Names("intra partition")] = default("iid")
    """Split within an island: iid, dirichlet, shards."""
    alpha: Annotated[Positive, OptionOf("inter partition", "intra partition")] = 0.1
    """Concentration of dirichlet splits: small makes devices different, large makes them alike."""
    inter_alpha: Annotated[Positive | None, OptionOf("inter partition")] = None
    """Concentration of the inter split, where it differs from alpha."""
    shards: Annotated[Count, OptionOf("intra partition")] = 2
    """Shards of sorted labels per device for intra = "shards"."""
    min_samples: Annotated[Count, OptionOf("inter partition")] = 1
    """Fewest training samples a device may have."""
    sample_share: Annotated[Share, KeyedIfSet()] = 1.0
    """The share of the samples that is dealt, drawn by the seed; the others are not used. The test
    set stays whole, except with own_tests = "dealt"."""
    own_tests: Annotated[Literal["label_mix", "dealt"], KeyedIfSet()] = "label_mix"
    """What scores a device's own labels: label_mix (all test samples, weighted by the device's
    training labels), or dealt (training and test samples are dealt together by the same rule, and a
    device is scored on the test samples that it was dealt; on its label mix if there are none)."""
    scaling: Literal["standard", "unit", "raw"] = "standard"
    """standard: minus the training mean, over the standard deviation; unit: images scaled to
    [0, 1]; raw: unchanged, integers stay integers (for embeddings). Tokens are always raw."""

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
            sample_share: float = 1.0,
            own_tests: Literal["label_mix", "dealt"] = "label_mix",
            scaling: Literal["standard", "unit", "raw"] = "standard",
            **options: Any,
        ) -> None:
            """Further arguments are options of the data set and of the split."""

    @property
    def functions(self) -> dict[str, str]:
        """The functions that are used; data that are given need no partition."""
        return super().functions if self.split == "dealt" else {"dataset": self.dataset}

    def faults(self) -> Iterable[Fault]:
        if self.dataset in registry.DATASET_FILES and not self.path:
            yield (
                ("data.dataset", "data.path"),
                f"data.path must name {registry.DATASET_FILES[self.dataset]} when data.dataset = "
                f'"{self.dataset}". Set data.path.',
            )
        if self.dataset in registry.DATASETS_BY_DEVICE and "split" not in self.model_fields_set:
            yield (
                ("data.dataset", "data.split"),
                f'data.dataset = "{self.dataset}" says which device holds which samples. Set '
                'data.split = "given" to keep this assignment, or "dealt" to partition the samples '
                "again.",
            )

        if self.split == "given":
            fields = type(self).model_fields
            for field in ("sample_share", "own_tests"):
                if getattr(self, field) == fields[field].default:
                    continue
                yield (
                    ("data.split", f"data.{field}"),
                    f'data.{field} is for samples that are dealt (got data.split = "given"): the '
                    "data say what every device holds. Leave it out.",
                )

    def unused_fields(self) -> frozenset[str]:
        """Also `alpha`, where inter_alpha replaces it and the intra split does not take it; with
        split = "given", all fields of the partition."""
        idle = super().unused_fields() - {"min_samples"}  # every partition is levelled
        if self.split == "given":
            return idle | {"inter", "intra", "alpha", "inter_alpha", "shards", "min_samples"}
        if self.inter != "dirichlet" or self.inter_alpha is None:
            return idle
        inside = registry.is_builtin("intra partition", self.intra)
        dealt_by_it = not inside or "alpha" in self.options_for("intra partition")
        return idle if dealt_by_it else idle | {"alpha"}
