"""The page: one HTML file that loads nothing, runs nothing, and prints on A4."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from pmw.public.export.manifest import program_version
from pmw.public.export.writing import require_file, write_whole
from pmw.public.report import sections
from pmw.public.report.elements import escaped, isolated
from pmw.public.report.facts import Facts
from pmw.public.report.quoting import quote_section

__all__ = [
    "report_page",
    "write_report",
]

_STYLE = """
:root{color-scheme:light dark;--ink:#222;--soft:#595959;--paper:#fff;--line:#d5d5d5;--tile:#f2f5f8;
--model:#8dbbdb;--line-of-model:#1b6ca8;--measured:#b3442b;--warn:#8a1f0c}
@media screen and (prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#b0b0b0;--paper:#16191d;
--line:#3c4147;--tile:#21262c;--model:#3f7fae;--line-of-model:#7cb8e4;--measured:#ff9b7d;--warn:#ffb4a2}}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1rem;max-width:52rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.4rem;margin:2.5rem 0 .5rem;padding-top:.7rem;border-top:2px solid var(--model)}
h3{font-size:1.08rem;margin:1.5rem 0 .3rem}
p{margin:.5rem 0}
li{margin:.2rem 0}
.exact{border-left:4px solid var(--model);padding:.3rem .8rem;background:var(--tile)}
.warning{border:3px solid var(--warn);color:var(--warn);padding:.6rem .8rem;font-weight:bold}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.6rem;margin:1.2rem 0}
.tiles div{background:var(--tile);padding:.6rem .8rem;border-radius:.3rem}
.note{color:var(--soft);font-size:.88rem}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-size:1.15rem;font-weight:600}
.wide{overflow-x:auto;margin:.8rem 0}
.wide:focus-visible{outline:2px solid var(--model)}
table{border-collapse:collapse;width:100%;font-size:.88rem;overflow-wrap:normal}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:right;vertical-align:top;
font-variant-numeric:tabular-nums}
td{white-space:nowrap}
thead th,thead .text{color:var(--soft);vertical-align:bottom;overflow-wrap:normal}
tbody th{font-weight:normal}
.text{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:5rem}
figure{margin:1rem 0}
svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font-size:12px}
svg .headline{font-weight:bold;font-size:13px}
svg .what{fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:1}
svg rect.model{fill:var(--model)}
svg circle.model{fill:var(--line-of-model)}
svg polyline{fill:none;stroke-width:2}
svg .model-line{stroke:var(--line-of-model);stroke-width:2}
svg polyline.model{stroke:var(--line-of-model)}
svg polyline.measured,svg line.measured{stroke:var(--measured)}
svg polyline.measured,svg .dashed{stroke-dasharray:7 3}
svg line.measured{stroke-width:1.5}
svg circle.measured{fill:var(--measured)}
svg .cap{stroke:var(--ink);stroke-dasharray:6 4}
footer{margin-top:2.5rem;color:var(--soft);font-size:.85rem;border-top:1px solid var(--line)}
@page{size:A4;margin:16mm 15mm}
@media print{body{max-width:none;padding:0;font-size:10pt}.wide{overflow:visible}td{white-space:normal}
table{font-size:8.5pt}thead{display:table-header-group}tr,figure,.whole,.tiles,.exact{break-inside:avoid}
h1,h2,h3,caption{break-after:avoid}figure{max-width:15cm}
.tiles div,.exact,svg *{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""


def report_page(facts: Facts) -> str:
    """Return a report on a session as one HTML page.

    Every text that somebody chose is escaped. The page holds no script, and its policy lets it load nothing
    and be styled by its own style sheet alone.

    Args:
        facts: what it is made of.

    Privacy: post-processing of released numbers; free.
    """
    known = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    body = [
        sections.overview(facts),
        "<main>",
        sections.summary_section(facts),
        sections.promise_section(facts),
        sections.accuracy_section(facts),
        quote_section(facts),
        sections.picture_section(facts),
        sections.asked_section(facts),
        sections.ledger_section(facts),
        sections.synthetic_section(facts),
        "</main>",
        f"<footer><p>{escaped(_origin(facts))}</p></footer>",
    ]
    title = escaped(f"Report on {isolated(facts.status.table)}")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def write_report(facts: Facts, path: Path, *, force: bool = False) -> None:
    """Write a report on a session whole or not at all.

    Raises:
        ReleaseError: the path is a folder, the file exists and ``force`` is not given, or it cannot be
            written.
    """
    require_file(path, force=force)
    page = report_page(facts)
    write_whole(path, lambda target: target.write_text(page, encoding="utf-8", newline=""))


def _origin(facts: Facts) -> str:
    return (
        f"Written by online-pmw {program_version()} at model version {facts.status.version}, after "
        f"{facts.status.queries_answered:,} answers. This page is public: it is made from released "
        "numbers, the "
        "ledger and the questions alone, and holds nothing else of the table."
    )
