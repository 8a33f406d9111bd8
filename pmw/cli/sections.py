"""Sections: the options of the longest helps, under headings."""

from __future__ import annotations

import click

_SECTIONS = {
    "The table": (
        "data", "table", "schema", "inside", "delimiter", "quote", "missing_text", "trim", "encoding",
        "decimal", "escape", "memory", "temporary_folder", "data_is_public",
    ),
    "The promise": (
        "epsilon", "delta", "neighbors", "records_per_person", "person_column", "accuracy", "beta", "records",
        "confidence", "simultaneous",
    ),
    "For experts": (
        "preset", "test", "opening", "update", "model", "max_cells", "update_limit", "threshold",
        "learning_rate", "queries", "sparse_vector", "sides", "composition",
    ),
}  # fmt: skip
_REST = "Options"


class SectionedCommand(click.Command):
    """A command whose help has the options of a session by what they are about, and its own last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        titles = {name: title for title, names in _SECTIONS.items() for name in names}
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (*_SECTIONS, _REST)}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                rows[titles.get(parameter.name or "", _REST)].append(row)
        for title, listed in rows.items():
            if listed:
                with formatter.section(title):
                    formatter.write_dl(listed)
