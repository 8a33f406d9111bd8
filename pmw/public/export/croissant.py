"""Croissant: what an exported table is, in a form by which data sets are found and loaded.

Source: MLCommons, Croissant Format Specification 1.1, with the properties of its RAI vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from pmw.public.export.manifest import reproduction_sentence
from pmw.public.export.rows import column_type
from pmw.public.status import pairs_sentence
from queries.categories import CategoricalAttribute
from queries.cells import number_text
from queries.domain import Attribute, OrderedAttribute
from queries.numbers import NumericAttribute
from queries.schema import kind_name, parse_schema

_VERSION = "http://mlcommons.org/croissant/1.1"
_NAMES = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileObject fileProperty fileSet "
    "format includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex "
    "repeated replace samplingRate separator source subField transform"
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: f"cr:{name}" for name in _NAMES.split()},
}
_FILE = "file"
_LISTED = 8  # values of a category that its description lists
_FORMATS = {"csv": "text/csv", "parquet": "application/x-parquet"}
_TYPES = {
    "BIGINT": "sc:Integer",
    "BOOLEAN": "sc:Boolean",
    "DATE": "sc:Date",
    "DOUBLE": "sc:Float",
    "TIMESTAMP": "sc:DateTime",
    "TIME": "sc:Time",
    "VARCHAR": "sc:Text",
}


def croissant_form(table: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Croissant description of a synthetic table, ready for JSON.

    It has no licence, address, creator, citation and date: whoever publishes the table adds these.

    Args:
        table: the file of rows, of which the name and the SHA-256 are told.

    Privacy: a function of the exported file and its manifest, which are public; free.
    """
    guarantee = f"{manifest['guarantee'][:1].upper()}{manifest['guarantee'][1:]}."
    limits = [pairs_sentence(manifest["pairs"]), reproduction_sentence(manifest["marginals"])]
    with table.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _VERSION,
        "name": f"{manifest['table']}-synthetic",
        "description": f"{manifest['rows']:,} synthetic rows; none is a record of a person. {guarantee}",
        "isLiveDataset": False,
        "rai:dataCollection": "Drawn from a model that was fitted to counts of the table under noise.",
        "rai:personalSensitiveInformation": guarantee,
        "rai:dataLimitations": " ".join(filter(None, limits)),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": _FILE,
                "name": table.name,
                "contentUrl": table.name,
                "encodingFormat": _FORMATS[manifest["format"]],
                "sha256": digest,
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": list(map(_field, count(), parse_schema(manifest["schema"]))),
            }
        ],
    }


def _field(place: int, attribute: Attribute) -> dict[str, Any]:
    """Return a column: its type, which is that of a Parquet file, and its declaration in words.

    It is known by its place, since readers take no blank in an ``@id``.
    """
    return {
        "@type": "cr:Field",
        "@id": f"rows/{place}",
        "name": attribute.name,
        "description": _words(attribute),
        "dataType": _TYPES[column_type(attribute)],
        "source": {"fileObject": {"@id": _FILE}, "extract": {"column": attribute.name}},
    }


def _words(attribute: Attribute) -> str:
    if isinstance(attribute, CategoricalAttribute):
        shown = [attribute.label(code) for code in range(min(attribute.base_size, _LISTED))]
        values = ", ".join(shown) + (", …" if attribute.base_size > _LISTED else "")
    else:
        values = " to ".join(_ends(attribute))
    empty = "; may be empty" if attribute.missing else ""
    other = f"; {attribute.label(attribute.size - 1)} is any other value" if attribute.other else ""
    return f"{kind_name(attribute)}: {values}{empty}{other}"


def _ends(attribute: OrderedAttribute) -> tuple[str, str]:
    if isinstance(attribute, NumericAttribute):
        low, high = attribute.ends
        return number_text(low), number_text(high)
    return str(attribute.minimum), str(attribute.maximum)
