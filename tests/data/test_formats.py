"""Published file formats: bytes in, arrays out, damage refused."""

import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

from skerry.data.sources.formats import (
    CIFAR10_BINARY,
    CIFAR10_PNG,
    CIFAR100_BINARY,
    parse_cifar,
    parse_cifar_png,
    parse_idx,
)
from skerry.errors import DataError


def idx_bytes(array):
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def cifar_bytes(images, *labels):
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.column_stack([*labels, planes]).astype(np.uint8).tobytes()


def png_bytes(images):
    file = io.BytesIO()
    Image.fromarray(images.reshape(len(images), 1024, 3), "RGB").save(file, "PNG")
    return file.getvalue()


def some_images(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


@given(arrays(np.uint8, array_shapes(min_dims=1, max_dims=3, max_side=5)))
def test_idx_gives_back_what_was_written(array):
    """An idx file holds its array, shape and all."""
    np.testing.assert_array_equal(parse_idx("file", idx_bytes(array)), array)


@given(st.data())
def test_idx_of_the_wrong_length_is_refused(data):
    """No proper prefix of an idx file, and no longer file, passes for one."""
    whole = idx_bytes(np.arange(12, dtype=np.uint8).reshape(3, 4))
    length = data.draw(st.integers(0, len(whole) - 1))
    for content in (whole[:length], whole + b"\0"):
        with pytest.raises(DataError, match="file is"):
            parse_idx("file", content)


def test_cifar_binary_is_planes_and_becomes_pixels():
    """Red, green and blue planes become N,H,W,C; the label stands in front."""
    images, labels = some_images(3), np.array([4, 0, 9])
    got_images, got_labels = parse_cifar("file", cifar_bytes(images, labels), label_bytes=1)
    np.testing.assert_array_equal(got_images, images)
    np.testing.assert_array_equal(got_labels, labels)


def test_cifar100_takes_the_fine_label():
    """Of a record's two labels the second, the fine one, counts."""
    images, coarse, fine = some_images(2), np.array([3, 7]), np.array([70, 99])
    content = cifar_bytes(images, coarse, fine)
    decoded = CIFAR100_BINARY.decode({"train.bin": content, "test.bin": content})
    np.testing.assert_array_equal(decoded["y_train"], fine)
    np.testing.assert_array_equal(decoded["x_test"], images)


def test_both_editions_of_cifar10_decode_alike():
    """The binary and the PNG edition of the same data are the same arrays."""
    batches = [some_images(2, seed) for seed in range(6)]
    labels = [np.array([seed, 9 - seed]) for seed in range(6)]
    binary = {
        name: cifar_bytes(x, y)
        for name, x, y in zip(CIFAR10_BINARY.files, batches, labels, strict=True)
    }
    pictures = {name: png_bytes(x) for name, x in zip(CIFAR10_PNG.files[:6], batches, strict=True)}
    pictures["train_lables.json"] = json.dumps(np.concatenate(labels[:5]).tolist()).encode()
    pictures["test_lables.json"] = json.dumps(labels[5].tolist()).encode()
    one, other = CIFAR10_BINARY.decode(binary), CIFAR10_PNG.decode(pictures)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    "damaged",
    [
        lambda: parse_cifar("file", b"", 1),
        lambda: parse_cifar("file", cifar_bytes(some_images(2), [1, 2])[:-1], 1),
        lambda: parse_cifar_png("file", png_bytes(some_images(40))[:-2000]),
        lambda: parse_cifar_png("file", b"not a picture"),
        lambda: CIFAR10_PNG.decode(
            {name: png_bytes(some_images(1)) for name in CIFAR10_PNG.files[:6]}
            | {"train_lables.json": b"[1, 2, 999]", "test_lables.json": b"{"}
        ),
    ],
)
def test_damaged_images_are_refused_in_one_line(damaged):
    """Truncated or foreign bytes give a DataError, never a traceback or an array."""
    with pytest.raises(DataError) as caught:
        damaged()
    assert "\n" not in str(caught.value)
