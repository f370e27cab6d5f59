"""Write requirements.lock: what constraints.txt pins, with the SHA-256 of every wheel that pip
would take here. `make lock` calls it."""

import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
LEFT_OUT = ("skerry", "torch")


def main() -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--report", "-", "--constraint", str(ROOT / "constraints.txt"), str(ROOT)]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found = {one["metadata"]["name"]: one for one in report["install"]}
    where = f"CPython {'.'.join(platform.python_version_tuple()[:2])}, {sys.platform}"
    lines = [
        f"# For {where} on {platform.machine()}; `make lock` writes it. Not needed for `make run`.",
        "# torch is left out: it comes in builds for CPUs and for GPUs. Install yours first.",
    ]
    for name in sorted(set(found) - set(LEFT_OUT), key=str.lower):
        digest = found[name]["download_info"]["archive_info"]["hashes"]["sha256"]
        lines += [f"{name}=={found[name]['metadata']['version']} \\", f"    --hash=sha256:{digest}"]
    LOCK.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
