"""What a row of broken input is, and short ways to write one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SMALL = ("rounds=2", "network.devices=10", "server.sampled=3")
Content = str | bytes | dict[str, Any] | Callable[[Path], object]


@dataclass(frozen=True)
class Row:
    id: str
    arguments: tuple[str, ...]
    told: tuple[str, ...]
    files: dict[str, Content] = field(default_factory=dict)


def run(id: str, arguments: list[str], *told: str, **files: Content) -> Row:
    return Row(id, ("run", *settings(*SMALL), *arguments), told, files)


def toml(id: str, content: str | bytes, *told: str) -> Row:
    return Row(id, ("run", "mine.toml"), told, {"mine.toml": content})


def sets(id: str, given: str, *told: str) -> Row:
    return run(id, settings(*given.split()), *told)


def settings(*given: str) -> list[str]:
    return [word for setting in given for word in ("--set", setting)]


def plugin(setting: str, *told: str) -> Row:
    """A plug-in from bad_plugins.py; a star in what is told stands for its name."""
    where, _, name = setting.partition("=")
    reference = f"bad_plugins:{name}"
    lines = [line.replace("*", f"'{reference}'") for line in told]
    return sets(f"{where}-{name}", f"{where}={reference}", *lines)
