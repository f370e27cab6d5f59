"""A headless Chromium that all tests of a session share, and pages opened in it."""

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
REMEMBER = """() => {
    const controls = [...document.querySelectorAll("select, input[type=checkbox]")];
    window.atStart = controls.map(one => [one, one.type === "checkbox" ? one.checked : one.value]);
}"""
RESTORE = """() => {
    for (const [one, value] of window.atStart) {
        const name = one.type === "checkbox" ? "checked" : "value";
        if (!one.isConnected || one[name] === value) continue;
        one[name] = value;
        one.dispatchEvent(new Event("change"));
    }
}"""
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


def chromium() -> str | None:
    """The path of the browser: the variable SKERRY_CHROMIUM, or the first that is found."""
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
    """The browser of all tests of a session."""
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    program = chromium()
    if program is None:
        pytest.skip(f"needs a browser: {', '.join(NAMES)} on the PATH, or SKERRY_CHROMIUM")
    with launched(program) as started:
        yield started


@dataclass
class Opened:
    """A page in a tab, with its requests and errors."""

    tab: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors on the console, and uncaught exceptions."""

    def ready(self) -> None:
        """Wait until all plots are drawn."""
        self.tab.wait_for_selector("html[data-ready=all]", timeout=60_000)

    def choose(self, label: str, option: str, inside: str = "body") -> None:
        self.tab.locator(inside).get_by_label(label, exact=True).select_option(label=option)
        self.tab.wait_for_timeout(50)
        self.ready()

    def restore(self) -> None:
        """Set all controls back to their values at the start, for the next test of this page."""
        self.tab.evaluate(RESTORE)
        self.tab.wait_for_timeout(50)
        self.ready()

    def text(self, selector: str) -> str:
        return " ".join(self.tab.locator(selector).inner_text().split())

    def traces(self, widget: str, number: int = 0) -> list[dict[str, Any]]:
        """The traces of a plot, as Plotly has them."""
        read = """([widget, number]) => document.querySelectorAll(`.${widget} .plot`)[number].data
            .map(({x, y, z, name, hovertext, line, marker, error_y}) => ({
                x: x && Array.from(x), y: y && Array.from(y), z, name, hovertext,
                bars: error_y?.array && Array.from(error_y.array),
                colour: line?.color ?? marker?.color}))"""
        found: list[dict[str, Any]] = self.tab.evaluate(read, [widget, number])
        return found


@contextmanager
def opened(
    browser: Any, file: Path, *, drawn: bool = True, dark: bool = False, phone: bool = False
) -> Iterator[Opened]:
    """Open a page from disk in a new tab."""
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
        found.tab.evaluate(REMEMBER)
    yield found
    context.close()
