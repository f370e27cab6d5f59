"""Hashes of modules of the user: the file of a plug-in, and the own files that it imports.

A module is the user's own unless it belongs to Python, to Skerry or to an installed package
(`site-packages`), which count by name. Imports are read from the text of a file, also those inside
functions, and followed through the user's own modules.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path, PurePath

from skerry.errors import SkerryError
from skerry.plugins.loaded import refuse_other_code, refuse_other_values

DIGITS = 16
OURS = ("skerry", "skerry_paper")
INSTALLED = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class _Source:
    """The text of a module as it was when this process first saw it, and the names it imports."""

    spec: ModuleSpec
    """Kept alive, so that no other has its id."""
    stamp: object
    """What changes when the module is loaded again: its spec; before it is loaded, its file."""
    text: bytes
    digest: str
    imports: tuple[str, ...]


_known: dict[str, _Source] = {}
"""By module. A loaded module is read once: what is edited after the import is not what runs."""


def source_hash(module: str) -> str:
    """The hash of a module's file and of the user's own modules that it imports; empty where the
    file cannot be read. A module without such imports has the hash of its file."""
    own = _source(module)
    if own is None:
        return ""
    found = {name: source.digest for name, source in _reached(module, own)}
    if len(found) == 1:
        return own.digest[:DIGITS]
    text = repr([own.digest, sorted(found.items())])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def refuse_changed_module(module: str, imported_again: bool = False) -> None:
    """Raise SkerryError if a module, or one of the user's own that it imports, is not what its file
    said when it was first read; if workers import it again, what the file says now counts, too."""
    for name, source in _reached(module, own) if (own := _source(module)) else ():
        if is_own(name):
            refuse_other_code(name, source.text)
            refuse_other_values(name, source.text)
            file = Path(source.spec.origin or "")
            if imported_again and file.is_file() and file.read_bytes() != source.text:
                raise SkerryError(
                    f"{file.name} was edited after it was imported, and workers import it again. "
                    "Restart Python, or reload the module."
                )


def is_own(module: str | None) -> bool:
    """Whether a module is the user's own. Those without a file are, such as a notebook."""
    return module is not None and _is_own(str(module).partition(".")[0])


@cache
def _is_own(top: str) -> bool:
    if top == "__main__" or top in OURS or top in sys.stdlib_module_names:
        return top == "__main__"  # which may have been started by an installed package
    spec = _spec(top)
    places = (*(spec.submodule_search_locations or ()), spec.origin or "") if spec else ()
    return not any(INSTALLED & set(PurePath(place).parts) for place in places)


def _reached(module: str, source: _Source) -> Iterator[tuple[str, _Source]]:
    """The module and the user's own modules behind its imports, each once."""
    seen, ahead = {module}, [(module, source)]
    while ahead:
        name, here = ahead.pop()
        yield name, here
        for other in here.imports:
            if other not in seen:
                seen.add(other)
                if is_own(other) and (found := _source(other)):
                    ahead.append((other, found))


def _source(module: str) -> _Source | None:
    spec = _spec(module)
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    try:
        # Specs are compared by identity: a reload makes another one that is equal.
        is_loaded = module in sys.modules
        stamp = id(spec) if is_loaded else (spec.origin, os.stat(spec.origin).st_mtime_ns)
        known = _known.get(module)
        if known is None or known.stamp != stamp:
            read = getattr(spec.loader, "get_data", lambda path: Path(path).read_bytes())
            text: bytes = read(spec.origin)
            package = module if spec.submodule_search_locations is not None else spec.parent or ""
            imports = tuple(_with_parents([module, *_imports(text, package)]))
            if is_loaded and is_own(module):
                refuse_other_code(module, text)
            known = _Source(spec, stamp, text, hashlib.sha256(text).hexdigest(), imports)
            _known[module] = known
    except OSError:
        return None
    return known


def _spec(module: str) -> ModuleSpec | None:
    """The spec of a module, loaded or not; no package is imported to find it."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        spec: ModuleSpec | None = getattr(loaded, "__spec__", None)
        return spec or (spec_from_file_location(module, file) if file else None)
    parent, _, _ = module.rpartition(".")
    package = _spec(parent) if parent else None
    places = package.submodule_search_locations if package else None
    return PathFinder.find_spec(module, places) if places or not parent else None


def _with_parents(names: Iterable[str]) -> Iterator[str]:
    """Modules and the packages that they lie in, whose `__init__.py` is run with them."""
    parts = ((name.split("."), name.count(".") + 1) for name in names)
    return iter(dict.fromkeys(".".join(n[:end]) for n, size in parts for end in range(1, size + 1)))


def _imports(text: bytes, package: str) -> Iterator[str]:
    """The modules that a text imports anywhere; `from package import name` may mean a module."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # a compiled module
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (name for name in [base, *(f"{base}.{a.name}" for a in node.names)] if name)
