"""The report: what a session promises and which of its numbers may be quoted, as one page."""

from pmw.public.report.page import AnsweredQuestion, Facts, report_page, report_policy, write_report
from pmw.public.report.registry import registry_text

__all__ = [
    "AnsweredQuestion",
    "Facts",
    "registry_text",
    "report_page",
    "report_policy",
    "write_report",
]
