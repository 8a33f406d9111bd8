"""Display: texts, tables, charts and pages, made of numbers and texts alone."""

__all__: list[str] = []
