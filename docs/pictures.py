"""The pictures of the report page: `python docs/pictures.py` runs two small studies, and takes the
first screens of their pages, on a desktop and on a phone, light and dark. It needs the extra dev
and Chromium."""

import sys
import tempfile
from pathlib import Path

import skerry
from skerry.report.page.build import write_report

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "pictures" / "gallery"
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
SCREENS = {
    "light": (DESKTOP, False),
    "dark": (DESKTOP, True),
    "phone": (PHONE, False),
    "phone-dark": (PHONE, True),
}
SMALL = ["network.devices=20", "server.sampled=4", "rounds=30"]

sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        compared, advised = Path(place) / "compared", Path(place) / "advised"
        fleet = skerry.Experiment.parse({}, SMALL)
        skerry.run(fleet, compare=["s2s", "s2a", "blend:0.5"], seeds=5, out=compared)
        tried = {"sampled": [2, 4, 8], "periods": [5, 10], "stepsizes": [0.1, 0.3]}
        skerry.advise(fleet, minutes=60, seeds=4, among="none,s2s,s2a", out=advised, **tried)
        take(write_report(compared), "report")
        take(write_report(advised), "report-advised")


def take(page: Path, name: str) -> None:
    from browser import chromium, launched  # of the tests

    with launched(chromium()) as browser:
        for screen, (size, dark) in SCREENS.items():
            shade = "dark" if dark else "light"
            tab = browser.new_page(viewport=size, color_scheme=shade)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_selector("html[data-ready=all]", timeout=60_000)
            tab.screenshot(path=GALLERY / f"{name}-{screen}.png")
            tab.close()


if __name__ == "__main__":
    main()
