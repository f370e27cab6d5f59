"""The documentation as a site that can be searched: `make site` writes it to build/site.

The pages are those of the repository. README.md becomes the first one; files that pages link to
outside of docs (an experiment, a source file) come along under files/, and links follow.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "site-pages"
SITE = ROOT / "build" / "site"
FIRST = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages that lie beside docs."""
LINK = re.compile(r"(?P<text>\[[^\]]*\])\((?P<path>(?!\w+:|#)[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
CODE = re.compile(r"^( *)```.*?^\1``` *$", re.MULTILINE | re.DOTALL)


def place(file: Path) -> Path:
    """Where a file of the repository lies in the site."""
    inside = file.relative_to(ROOT)
    if inside == Path("README.md"):
        return Path("index.md")
    if inside.parts[0] == "docs":
        return Path(*inside.parts[1:])
    return inside if str(inside) in FIRST else Path("files") / inside


def linked(text: str, page: Path, needed: set[Path]) -> str:
    """A page's text with links as they lead in the site; what they need beside pages is noted."""

    def follow(found: re.Match[str]) -> str:
        target = (page.parent / found["path"]).resolve()
        if target.is_dir():
            target /= "README.md"
            if not target.is_file():  # a folder of files: nothing to show
                return found["text"][1:-1]
        needed.add(target)
        path = os.path.relpath(place(target), place(page).parent)
        return f"{found['text']}({Path(path).as_posix()}{found['anchor'] or ''})"

    pieces, end = [], 0
    for code in CODE.finditer(text):  # code stays as it is
        pieces += [LINK.sub(follow, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(follow, text[end:])])


def first_page(text: str) -> str:
    """The text of README.md with the version and the way to the citation below the title."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    line = f"Version {project['version']}. [How to cite](#how-to-cite)"
    return text.replace("\n", f"\n\n{line}\n", 1)


def gather(folder: Path = PAGES) -> None:
    """All pages, and all that they link to, in one folder."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting = [*(ROOT / name for name in FIRST), *sorted((ROOT / "docs").rglob("*.md"))]
    done: set[Path] = set()
    while waiting:
        file, needed = waiting.pop(), set[Path]()
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            text = linked(file.read_text(encoding="utf-8"), file, needed)
            target.write_text(first_page(text) if file == ROOT / "README.md" else text, "utf-8")
        else:
            shutil.copyfile(file, target)
        done.add(file)
        waiting += needed.difference(done, waiting)


class Page(HTMLParser):
    """The links of a page of the site, and the places in it that links may name."""

    def __init__(self, file: Path):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.places |= {found[name] for name in ("id", "name") if name in found}


def broken_links(site: Path = SITE) -> list[str]:
    """`page.html: link` for every link inside the site that leads nowhere."""
    pages = {file.resolve(): Page(file) for file in site.rglob("*.html")}
    broken = []
    for file, page in pages.items():
        if file.name == "404.html":  # its links are from the root of the site
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].places if target in pages else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in known):
                broken.append(f"{file.relative_to(site.resolve())}: {link}")
    return list(dict.fromkeys(broken))


if __name__ == "__main__":
    gather()
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    if code := subprocess.run(build, cwd=ROOT).returncode:
        sys.exit(code)
    if broken := broken_links():
        sys.exit("\n".join(["broken links in the site:", *broken]))
