"""The documentation as a site that can be searched: `make site` writes it to build/site.

The pages are those of the repository. README.md becomes the first one; files that pages link to
outside of docs (an experiment, a source file) come along under files/, and links follow.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "site-pages"
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


def gather(folder: Path = PAGES) -> None:
    """All pages, and all that they link to, in one folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = [*(ROOT / name for name in FIRST), *sorted((ROOT / "docs").rglob("*.md"))]
    needed: set[Path] = set()
    for page in pages:
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(linked(page.read_text(encoding="utf-8"), page, needed), encoding="utf-8")
    for file in needed.difference(pages):
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


if __name__ == "__main__":
    gather()
    build = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    sys.exit(subprocess.run(build, cwd=ROOT).returncode)
