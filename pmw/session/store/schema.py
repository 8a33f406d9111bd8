"""The tables of a session file. Each row ends with the checksum of the columns before it."""

from __future__ import annotations

__all__ = [
    "COLUMNS",
    "COUNTED",
    "FORMAT_VERSION",
    "INDEXES",
    "statements",
    "TABLES",
]

FORMAT_VERSION = 6

TABLES = {
    "meta": """CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "secrets": """CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "ledger": """CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    event TEXT NOT NULL, label TEXT NOT NULL, epsilon TEXT, rho TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "measurements": """CREATE TABLE measurements (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    kind TEXT NOT NULL, what TEXT NOT NULL, units BLOB NOT NULL, noise TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "answers": """CREATE TABLE answers (sequence INTEGER PRIMARY KEY, request_id TEXT UNIQUE,
    query_key BLOB NOT NULL, query TEXT NOT NULL, count REAL NOT NULL, low REAL, high REAL,
    confidence REAL NOT NULL, source TEXT NOT NULL, version INTEGER NOT NULL, share REAL NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "certificates": """CREATE TABLE certificates (sequence INTEGER PRIMARY KEY, scope TEXT UNIQUE NOT NULL,
    version INTEGER NOT NULL, threshold INTEGER NOT NULL, units BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "snapshots": """CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
}
INDEXES = (
    "CREATE INDEX answers_by_query ON answers (query_key)",
    # few: opening a session looks each of them up
    "CREATE INDEX answers_measured ON answers (source) WHERE source = 'measured'",
)
# What a checksum is of. A snapshot's is its own: a damaged one is ignored.
COLUMNS = {
    "meta": ("key", "value"),
    "secrets": ("key", "value"),
    "ledger": ("intent", "event", "label", "epsilon", "rho"),
    "measurements": ("intent", "kind", "what", "units", "noise"),
    "answers": (
        "request_id", "query_key", "query", "count", "low", "high",
        "confidence", "source", "version", "share",
    ),
    "certificates": ("scope", "version", "threshold", "units"),
}  # fmt: skip
COUNTED = ("ledger", "measurements", "answers")  # rows are only ever added to these


def statements() -> tuple[str, ...]:
    """Return the statements that make the tables and indexes of a session file."""
    return (*TABLES.values(), *INDEXES)
