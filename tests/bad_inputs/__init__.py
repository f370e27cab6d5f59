"""Broken inputs, in tables by subject: a row is an id, the input, and the line (or a long part of
it) that a user reads.

A row with several lines has several faults, all told at once. `test_bad_input.py` holds the laws.
"""

from importlib import import_module
from pkgutil import iter_modules

from bad_inputs.rows import Row

_MODULES = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
ROWS: list[Row] = [row for module in _MODULES for row in getattr(module, "ROWS", [])]
"""Those of every file here that has a table."""
