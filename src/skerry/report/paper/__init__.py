"""The reproduction, shown: every table and figure of the paper beside what was measured here."""

from skerry.report.paper.pages import write_pages
from skerry.report.paper.show import show
from skerry.report.paper.shown import Shown

__all__ = ["Shown", "show", "write_pages"]
