"""The pieces that a section is made of. A piece is a table for JSON; page.js shows it as text,
never as HTML, so that no name in a record can be more than a name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Block = dict[str, Any]


@dataclass(frozen=True)
class Section:
    name: str
    """Its anchor in the page."""
    title: str
    blocks: Sequence[Block]


def text(words: str) -> Block:
    return {"kind": "text", "words": words}


def note(words: str, tone: Literal["plain", "warning"] = "plain") -> Block:
    """A remark, or, as a warning, what a reader must not miss."""
    return {"kind": "note", "words": words, "tone": tone}


def bullets(lines: Iterable[str]) -> Block:
    return {"kind": "bullets", "lines": list(lines)}


def facts(pairs: Iterable[tuple[str, str]]) -> Block:
    """Terms and what they are here."""
    return {"kind": "facts", "pairs": [list(pair) for pair in pairs]}


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> Block:
    """Words stand left, numbers right: `sides` has an l or r for each column."""
    rows = [list(row) for row in rows]
    return {"kind": "table", "title": title, "header": list(header), "rows": rows, "sides": sides}


def code(title: str, content: str) -> Block:
    """Text to copy; it has a button for it."""
    return {"kind": "code", "title": title, "content": content}


def folded(title: str, *blocks: Block) -> Block:
    """What few readers need: opened by a click."""
    return {"kind": "folded", "title": title, "blocks": list(blocks)}


def widget(name: str, **data: Any) -> Block:
    """An interactive piece: `assets/widgets/<name>.js` shows the data."""
    return {"kind": "widget", "widget": name, "data": data}
