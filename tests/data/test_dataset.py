"""Data sets: sound or refused, and scaled as stated."""

import sys
import types

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from skerry.config.experiment import Data
from skerry.data.dataset import Dataset, channel_moments
from skerry.data.sources.catalog import (
    DIGITS_MEAN,
    DIGITS_STD,
    from_arrays,
    from_torch,
    load_dataset,
)
from skerry.errors import DataError, ExperimentError


def vectors(**changes):
    """Four sound arrays, some of them changed."""
    parts = {
        "x_train": np.arange(12.0).reshape(6, 2),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.ones((3, 2)),
        "y_test": np.array([0, 1, 2]),
    }
    return parts | changes


# What is refused

NAN = np.full((6, 2), np.nan)
UNSOUND = [
    ({"y_train": np.arange(5)}, "same length"),
    ({"x_train": NAN}, "finite"),
    ({"x_train": np.full((6, 2), 1e300)}, "finite"),
    ({"x_train": np.full((6, 2), "a")}, "real numbers"),
    ({"x_train": np.full((6, 2), None)}, "real numbers"),
    ({"x_train": np.ones((6, 2), complex)}, "real numbers"),
    ({"x_train": [[1.0], [1.0, 2.0]]}, "rows differ"),
    ({"x_train": [[1.0, torch.ones((), requires_grad=True)]] * 6}, "cannot be read (RuntimeErr"),
    ({"x_train": np.ma.masked_less(np.arange(12.0).reshape(6, 2), 3)}, "3 masked values"),
    ({"x_train": sparse.csr_array(np.ones((6, 2)))}, "Convert: x.toarray()"),
    ({"x_train": torch.ones(6, 2).to_sparse()}, "Convert: x.to_dense()"),
    ({"x_train": np.float32(1)}, "got shape ()"),
    ({"y_train": np.uint64([0, 1, 2, 0, 1, 2**63])}, "below 2**63 (got 9223372036854775808)"),
    ({"x_train": np.ones(6)}, "got shape (6,)"),
    ({"x_train": np.ones((6, 2, 2, 2, 2))}, "N,H,W,C"),
    ({"x_train": np.ones((0, 2)), "y_train": np.ones(0, int)}, "must not be empty"),
    ({"x_test": np.ones((0, 2)), "y_test": np.ones(0, int)}, "must not be empty"),
    ({"x_test": np.ones((3, 5))}, "must be alike"),
    ({"x_test": np.ones((3, 2), np.uint8)}, "must be alike"),
    ({"y_train": np.array([0.0, 1, 2, 0, 1, 2])}, "whole numbers"),
    ({"y_train": np.array([1j, 0] * 3)}, "whole numbers"),
    ({"y_train": np.zeros((6, 1), int)}, "one dimension"),
    ({"y_train": np.array([1, 2, 3, 1, 2, 3])}, "from 0 to classes - 1"),
    ({"y_train": np.array([-1, 0, 1, 2, 0, 1])}, "from 0 to classes - 1"),
    ({"y_train": np.array([0, 1, 2, 0, 1, 10**12])}, "from 0 to classes - 1"),
    ({"y_train": np.zeros(6, int), "y_test": np.zeros(3, int)}, "at least 2 classes"),
    ({"y_test": np.array([0, 1, 3])}, "labels 0 to 2 (got 3)"),
    ({"y_test": np.array([0, 1, -1])}, "from 0 on (got -1)"),
    ({"mean": (0.0,)}, "both hold 2 numbers"),
    ({"mean": (0.0,), "std": (1.0,)}, "both hold 2 numbers"),
    ({"mean": (0.0, 0.0), "std": (1.0, 0.0)}, "std above 0"),
    ({"x_train": np.ones((6, 3, 8, 8)), "x_test": np.ones((3, 3, 8, 8))}, "np.moveaxis"),
]


@pytest.mark.parametrize(("changes", "told"), UNSOUND, ids=[told for _, told in UNSOUND])
def test_unsound_arrays_are_refused_in_one_line(changes, told):
    """Arrays that are no data set are refused with the rule and what was got."""
    with pytest.raises(DataError) as caught:
        from_arrays(**vectors(**changes))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "same",
    [
        lambda x: torch.tensor(x, requires_grad=True),
        lambda x: torch.tensor(x, dtype=torch.bfloat16),
        lambda x: x.astype(np.float16),
        lambda x: x.astype(">f8"),
        lambda x: np.ma.masked_less(x, -1),
        lambda x: x.astype(np.uint64),
    ],
    ids=["gradient", "bfloat16", "float16", "big-endian", "nothing masked", "uint64"],
)
def test_the_same_numbers_are_the_same_data(same):
    """How an array stores its numbers makes no difference."""
    x, found = vectors()["x_train"], from_arrays(**vectors(x_train=same(vectors()["x_train"])))
    np.testing.assert_array_equal(found.x_train, x.astype(np.float32))
    assert found.x_train.dtype == np.dtype("=f4")
    pairs = list(zip(same(x), torch.arange(6) % 3, strict=True))
    np.testing.assert_array_equal(from_torch(pairs, pairs).x_test, x)


# What a model sees


@pytest.mark.parametrize(
    ("shape", "seen"),
    [((5,), (5,)), ((4, 3), (1, 4, 3)), ((4, 5, 3), (3, 4, 5))],
    ids=["vectors", "grey images", "colour images"],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int16])
def test_inputs_have_channels_first_and_standard_moments(shape, seen, dtype):
    """Images become N,C,H,W; standard scaling gives every channel mean 0 and deviation 1."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 200, (60, *shape)).astype(dtype)
    data = from_arrays(x, np.arange(60) % 2, x[:7], np.arange(7) % 2)
    inputs = data.inputs("train", "standard")
    assert inputs.shape == (60, *seen)
    assert data.inputs("test", "unit").shape == (7, *seen)
    assert inputs.dtype == np.float32
    rest = (0, *range(2, inputs.ndim))
    np.testing.assert_allclose(inputs.mean(axis=rest), 0, atol=1e-5)
    np.testing.assert_allclose(inputs.std(axis=rest), 1, atol=1e-5)
    raw = np.moveaxis(x.reshape(60, *shape, 1) if len(shape) == 2 else x, -1, 1)
    white = 255 if dtype == np.uint8 else 1
    np.testing.assert_allclose(data.inputs("train", "unit"), raw / white, rtol=1e-6)


def test_given_moments_are_used():
    """A published mean and deviation take the place of computed ones."""
    x = np.full((4, 2, 2), 51, np.uint8)
    data = from_arrays(x, [0, 1, 0, 1], x, [0, 1, 0, 1], mean=(0.1,), std=(0.5,))
    np.testing.assert_allclose(data.inputs("test", "standard"), (0.2 - 0.1) / 0.5, rtol=1e-6)


def test_a_feature_that_never_varies_becomes_zero():
    """A constant feature is centred and not divided by nothing."""
    x = np.column_stack([np.full(6, 0.1), np.arange(6)])
    inputs = from_arrays(**vectors(x_train=x)).inputs("train", "standard")
    np.testing.assert_allclose(inputs[:, 0], 0, atol=1e-7)


@given(arrays(np.float64, (7, 3), elements=st.floats(-1e3, 1e3)))
def test_moments_agree_with_numpy(x):
    """The blockwise moments are the mean and the standard deviation."""
    mean, std = channel_moments(x)
    np.testing.assert_allclose(mean, x.mean(axis=0))
    varies = np.ptp(x, axis=0) > 0
    np.testing.assert_allclose(std, np.where(varies, x.std(axis=0), 1), rtol=1e-7, atol=1e-9)


def test_moments_of_many_pixels_agree_with_numpy():
    """More pixels than one block holds make no difference."""
    x = np.random.default_rng(0).integers(0, 256, (300, 32, 32, 2), dtype=np.uint8)
    mean, std = channel_moments(x)
    np.testing.assert_allclose(mean, x.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(std, x.std(axis=(0, 1, 2)))


def test_fingerprint_follows_content_alone():
    """Any change of values, labels or scaling changes the fingerprint; the name does not."""
    base = from_arrays(**vectors()).fingerprint()
    assert base == from_arrays(**vectors(), name="other").fingerprint()
    moved = vectors()["x_train"].copy()
    moved[0, 0] += 1
    others = [
        vectors(x_train=moved),
        vectors(x_train=vectors()["x_train"][:, ::-1]),
        vectors(y_train=np.array([1, 0, 2, 0, 1, 2])),
        vectors(y_test=np.array([0, 1, 1])),
        vectors(mean=(0.0, 0.0), std=(1.0, 1.0)),
    ]
    prints = {from_arrays(**parts).fingerprint() for parts in others}
    assert len(prints) == len(others)
    assert base not in prints


# Other ways in


def test_from_torch_moves_channels_last_and_back():
    """A torch data set of C,H,W tensors comes out as the tensors it holds."""
    x = torch.rand(6, 3, 4, 5)
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    pairs = torch.utils.data.TensorDataset(x, y)
    data = from_torch(pairs, pairs)
    assert data.x_train.shape == (6, 4, 5, 3)
    np.testing.assert_array_equal(data.inputs("train", "unit"), x.numpy())
    np.testing.assert_array_equal(data.y_test, y.numpy())


class _Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        yield torch.zeros(2), 0


@pytest.mark.parametrize(
    ("items", "told"),
    [
        (_Stream(), "map-style"),
        ([(torch.zeros(2), "cat")] * 3, "whole numbers"),
        ([torch.zeros(3)] * 3, "pairs"),
        ([(torch.zeros(2), 0), (torch.zeros(3), 1)], "same shape"),
    ],
)
def test_from_torch_refuses_other_things(items, told):
    """Streams, labels in words, items that are no pairs, and ragged samples."""
    with pytest.raises(DataError, match=told):
        from_torch(items, items)


def test_digits_are_embedded_split_and_scaled():
    """1,437 and 360 images, every class in both in the same proportion, whatever the seed; the
    stated moments are those of the training part."""
    data = load_dataset(Data(dataset="digits"), seed=0)
    assert (data.x_train.shape, data.x_test.shape) == ((1437, 8, 8), (360, 8, 8))
    unit = data.inputs("train", "unit")
    assert (unit.min(), unit.max()) == (0, 1)
    assert (round(float(unit.mean()), 4), round(float(unit.std()), 4)) == (DIGITS_MEAN, DIGITS_STD)
    whole = np.bincount(data.y_train) + np.bincount(data.y_test)
    np.testing.assert_allclose(np.bincount(data.y_test), whole / 5, atol=1)
    assert data.fingerprint() == load_dataset(Data(dataset="digits"), seed=7).fingerprint()


def nearest_mean_accuracy(data):
    x, y = data.inputs("train", "unit"), data.y_train
    means = np.stack([x[y == c].mean(axis=0) for c in range(data.classes)])
    test = data.inputs("test", "unit")
    distance = ((test[:, None] - means) ** 2).sum(axis=2)
    return (distance.argmin(axis=1) == data.y_test).mean()


def test_synthetic_difficulty_goes_from_separable_to_hopeless():
    """Difficulty 0 is separable, and accuracy falls as it grows."""
    scores = [
        nearest_mean_accuracy(load_dataset(Data(dataset="synthetic", difficulty=level), 0))
        for level in (0, 0.5, 1.0, 20.0)
    ]
    assert scores[0] == 1
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < 0.2


def test_synthetic_confuses_two_orthogonal_classes_as_stated():
    """With two classes the error is Phi(-d / (2 difficulty)), d the distance of their centres."""
    settings = {"classes": 2, "features": 50, "samples": 20_000, "test_samples": 20_000}
    data = load_dataset(Data(dataset="synthetic", difficulty=1.0, **settings), 0)
    exact = load_dataset(Data(dataset="synthetic", difficulty=0.0, **settings), 0)
    centres = np.stack([exact.x_train[exact.y_train == c][0] for c in range(2)])
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), np.sqrt(2), rtol=1e-6)
    distance = float(np.linalg.norm(centres[0] - centres[1]))
    expected = torch.special.ndtr(torch.tensor(distance / 2)).item()
    assert nearest_mean_accuracy(data) == pytest.approx(expected, abs=0.015)


def test_synthetic_depends_on_its_own_seed_alone():
    """All seeds of a study share the data; another data_seed gives others."""
    first, same, other = (
        load_dataset(Data(dataset="synthetic", data_seed=own, samples=100), seed).fingerprint()
        for own, seed in ((0, 0), (0, 1), (1, 0))
    )
    assert first == same != other


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("samples", 9),
        ("samples", "many"),
        ("test_samples", 0),
        ("features", 1),
        ("classes", 1),
        ("classes", 2.5),
        ("difficulty", -1.0),
        ("difficulty", "hard"),
        ("data_seed", -1),
    ],
)
def test_synthetic_refuses_options_out_of_range(option, value):
    """Each option out of range is named with what was got."""
    with pytest.raises(DataError, match=f"data.{option} must be .*got {value!r}"):
        load_dataset(Data(dataset="synthetic", **{option: value}), 0)


# Files of arrays


def test_npz_with_four_arrays(tmp_path):
    """x_train, y_train, x_test, y_test are taken as they are."""
    path = tmp_path / "mine.npz"
    np.savez(path, **vectors())
    data = load_dataset(Data(dataset="npz", path=str(path)), 0)
    assert (data.name, data.classes) == ("mine", 3)
    np.testing.assert_array_equal(data.x_train, vectors()["x_train"])


def test_npz_with_one_pair_is_split_by_class(tmp_path):
    """x and y are split 80/20, class by class, and every sample is in one part."""
    path = tmp_path / "pair.npz"
    x, y = np.arange(100.0).reshape(50, 2), np.repeat([0, 1], 25)
    np.savez_compressed(path, x=x, y=y)
    data = load_dataset(Data(dataset="npz", path=str(path)), 3)
    assert np.bincount(data.y_test).tolist() == [5, 5]
    both = np.concatenate([data.x_train, data.x_test])
    np.testing.assert_array_equal(both[np.argsort(both[:, 0])], x)


def _objects(path):
    np.savez(path, x=np.array([{}, 1], dtype=object), y=np.array([0, 1]))


UNREADABLE = [
    (lambda path: None, "does not exist"),
    (lambda path: path.write_bytes(b"not a zip"), "cannot be read"),
    (lambda path: path.write_bytes(b"PK\x03\x04 half a zip"), "cannot be read"),
    (lambda path: np.save(path.open("wb"), np.ones(3)), "cannot be read"),
    (_objects, "without objects"),
    (lambda path: np.savez(path, a=1, b=2), "(got a, b)"),
    (lambda path: np.savez(path, x=np.ones((3, 2)), y=np.ones(4, int)), "same length"),
    (lambda path: np.savez(path, x=1.0, y=0), "same length"),
]


@pytest.mark.parametrize(("write", "told"), UNREADABLE)
def test_npz_that_cannot_be_used(write, told, tmp_path):
    """Missing, foreign, pickled and incomplete files are refused in one line that names them."""
    path = tmp_path / "file.npz"
    write(path)
    with pytest.raises(DataError) as caught:
        load_dataset(Data(dataset="npz", path=str(path)), 0)
    assert told in str(caught.value)
    assert "file.npz" in str(caught.value)
    assert "\n" not in str(caught.value)


# A user's own


@pytest.fixture
def own_module(monkeypatch):
    module = types.ModuleType("islanders_own_data")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_user_s_function_may_return_arrays_or_a_dataset(own_module):
    """The same signature, with options as keywords; four arrays or a Dataset come back."""

    def shifted(*, shift=0.0):
        parts = vectors()
        return parts["x_train"] + shift, parts["y_train"], parts["x_test"], parts["y_test"]

    own_module.arrays = shifted
    own_module.dataset = lambda: from_arrays(**vectors(), name="mine")
    got = load_dataset(Data(dataset="islanders_own_data:arrays", shift=2.0), 0)
    np.testing.assert_array_equal(got.x_train, vectors()["x_train"] + 2)
    assert load_dataset(Data(dataset="islanders_own_data:dataset"), 0).name == "mine"


def test_a_user_s_function_that_returns_something_else(own_module):
    """Anything but arrays or a Dataset is refused with what was got."""
    own_module.wrong = lambda: {"x": 1}
    with pytest.raises(DataError, match=r"must return a Dataset .*got dict"):
        load_dataset(Data(dataset="islanders_own_data:wrong"), 0)


def test_options_are_checked_against_the_signature():
    """An option the data set does not take is refused with those it takes."""
    with pytest.raises((DataError, ExperimentError), match="did you mean 'samples'"):
        load_dataset(Data(dataset="synthetic", sampels=10), 0)


def test_a_dataset_that_exists_is_sound():
    """Building a Dataset by hand passes the same checks."""
    parts = vectors(y_test=np.array([0, 1, 5]))
    with pytest.raises(DataError, match="labels 0 to 2"):
        Dataset("hand", *parts.values(), classes=3)
