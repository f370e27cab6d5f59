"""A real browser for pages: Chromium without a window, and what it did while a page was open."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
)
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


def chromium() -> str | None:
    """The browser's program: the variable SKERRY_CHROMIUM, or the first that is found."""
    return os.environ.get("SKERRY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def launched(program: str | None) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        started = player.chromium.launch(executable_path=program, args=list(SWITCHES))
        yield started
        started.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all tests of a session."""
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    program = chromium()
    if program is None:
        pytest.skip(f"needs a browser: {', '.join(NAMES)} on the PATH, or SKERRY_CHROMIUM")
    with launched(program) as started:
        yield started


@dataclass
class Opened:
    tab: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What was written to the console as an error, and errors that nobody caught."""

    def ready(self) -> None:
        """Wait until everything is drawn."""
        self.tab.wait_for_selector("html[data-ready=all]", timeout=60_000)

    def choose(self, label: str, option: str, inside: str = "body") -> None:
        self.tab.locator(inside).get_by_label(label, exact=True).select_option(label=option)
        self.tab.wait_for_timeout(50)
        self.ready()

    def text(self, selector: str) -> str:
        return " ".join(self.tab.locator(selector).inner_text().split())

    def traces(self, widget: str, number: int = 0) -> list[dict[str, Any]]:
        """What a plot shows, as Plotly holds it."""
        read = """([widget, number]) => document.querySelectorAll(`.${widget} .plot`)[number].data
            .map(({x, y, z, name, hovertext, line, marker}) => ({
                x: x && Array.from(x), y: y && Array.from(y), z, name, hovertext,
                colour: line?.color ?? marker?.color}))"""
        found: list[dict[str, Any]] = self.tab.evaluate(read, [widget, number])
        return found


@contextmanager
def opened(
    browser: Any, file: Path, *, drawn: bool = True, dark: bool = False, phone: bool = False
) -> Iterator[Opened]:
    """A page from disk in a tab of its own."""
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP, color_scheme="dark" if dark else "light"
    )
    found = Opened(context.new_page())
    found.tab.on("request", lambda request: found.requests.append(request.url))
    found.tab.on("pageerror", lambda error: found.complaints.append(str(error)))
    found.tab.on(
        "console",
        lambda message: found.complaints.append(message.text) if message.type == "error" else None,
    )
    found.tab.goto(file.resolve().as_uri())
    if drawn:
        found.ready()
    yield found
    context.close()
