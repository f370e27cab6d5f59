"""Install the CPU build of torch (200 MB instead of 5 GB) where it is the one to have.

`make run` and `make test` call it before they install everything else. On Linux without an NVIDIA
GPU it takes torch from PyTorch's own index of CPU builds, if that answers in time. Otherwise it
does nothing, and pip takes what its own indexes have. Either way it says in one line which.
"""

import re
import shutil
import subprocess
import sys
from contextlib import suppress
from http.client import HTTPException
from importlib import metadata
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

INDEX = "https://download.pytorch.org/whl/cpu"
SECONDS = 4.0
CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def main() -> None:
    [version] = re.findall(r"^torch==(\S+)$", CONSTRAINTS.read_text(), re.MULTILINE)
    with suppress(metadata.PackageNotFoundError):
        if metadata.version("torch").partition("+")[0] == version:
            return
    if sys.platform != "linux" or shutil.which("nvidia-smi"):
        return
    if not answers(f"{INDEX}/torch/"):
        print(f"torch {version}: the build that pip finds ({INDEX} does not answer)", flush=True)
        return
    print(f"torch {version}: the CPU build of {INDEX} (no NVIDIA GPU was found)", flush=True)
    # Its dependencies come with everything else, in the versions of constraints.txt.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--no-deps", "--index-url", INDEX, f"torch=={version}"])
    if done.returncode:
        print(f"torch {version}: not installed from there; the build that pip finds", flush=True)


def answers(url: str, seconds: float = SECONDS) -> bool:
    """Whether a page can be had in this time, which includes the search for the host's address."""
    found: list[bool] = []

    def ask() -> None:
        with (
            suppress(OSError, HTTPException),
            urlopen(Request(url, method="HEAD"), timeout=seconds) as page,
        ):
            found.append(page.status == 200)

    thread = Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return any(found)


if __name__ == "__main__":
    main()
