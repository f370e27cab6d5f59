"""The report: one page that explains what a folder of records holds, and needs nothing else."""

from skerry.report.page.blocks import PageSection, definitions, text
from skerry.report.page.report_data import ReportData, read_report_data

__all__ = ["PageSection", "ReportData", "definitions", "read_report_data", "text"]
