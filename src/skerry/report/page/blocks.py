"""The blocks that sections of the page consist of.

A block is a dict for JSON. page.js shows its text as text, never as HTML.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Block = dict[str, Any]


@dataclass(frozen=True)
class PageSection:
    """A section of the page: its anchor, its title and its blocks."""

    name: str
    title: str
    blocks: Sequence[Block]


def text(words: str) -> Block:
    """A paragraph."""
    return {"kind": "text", "words": words}


def note(words: str, tone: Literal["plain", "warning"] = "plain") -> Block:
    """A remark or, with the tone "warning", something that a reader must not miss."""
    return {"kind": "note", "words": words, "tone": tone}


def bullets(lines: Iterable[str]) -> Block:
    """A list of sentences."""
    return {"kind": "bullets", "lines": list(lines)}


def definitions(pairs: Iterable[tuple[str, str]]) -> Block:
    """A list of terms and their values."""
    return {"kind": "facts", "pairs": [list(pair) for pair in pairs]}


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> Block:
    """A table. `sides` has an l (left) or r (right) for each column."""
    rows = [list(row) for row in rows]
    return {"kind": "table", "title": title, "header": list(header), "rows": rows, "sides": sides}


def code(title: str, content: str) -> Block:
    """Text with a button to copy it."""
    return {"kind": "code", "title": title, "content": content}


def folded(title: str, *blocks: Block) -> Block:
    """Blocks that are hidden until the reader opens them."""
    return {"kind": "folded", "title": title, "blocks": list(blocks)}


def widget(name: str, **data: Any) -> Block:
    """An interactive block, which `assets/widgets/<name>.js` draws from the data."""
    return {"kind": "widget", "widget": name, "data": data}
