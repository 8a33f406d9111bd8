"""The tables of a session file. Each row ends with the checksum of the columns before it.

A file of format 1 has no certificates; one of format 2 has no checksums, no counts, no
masks and no archive.
"""

from __future__ import annotations

__all__ = [
    "CERTIFICATES_2",
    "COLUMNS",
    "COUNTED",
    "FORMAT_VERSION",
    "INDEXES",
    "KEYS",
    "statements",
    "TABLES",
    "TRANSCRIPT",
]

FORMAT_VERSION = 3

TABLES = {
    "meta": """CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "secrets": """CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "intents": """CREATE TABLE intents (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL,
    proposal TEXT NOT NULL, seed BLOB NOT NULL, checksum BLOB NOT NULL) STRICT""",
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
    "archive": """CREATE TABLE archive (last INTEGER PRIMARY KEY, size INTEGER NOT NULL, share REAL NOT NULL,
    payload BLOB NOT NULL, checksum BLOB NOT NULL) STRICT""",
    "archive_keys": """CREATE TABLE archive_keys (key BLOB PRIMARY KEY, number INTEGER NOT NULL)
    STRICT, WITHOUT ROWID""",
    "snapshots": """CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
}
INDEXES = (
    "CREATE INDEX answers_by_query ON answers (query_key)",
    # few: opening a session looks each of them up
    "CREATE INDEX answers_measured ON answers (source) WHERE source = 'measured'",
)
# What a checksum is of. A snapshot's is its own: a damaged one is ignored. A key of the archive is compared
# with the answer that it leads to.
COLUMNS = {
    "meta": ("key", "value"),
    "secrets": ("key", "value"),
    "intents": ("kind", "proposal", "seed"),
    "ledger": ("intent", "event", "label", "epsilon", "rho"),
    "measurements": ("intent", "kind", "what", "units", "noise"),
    "answers": (
        "request_id", "query_key", "query", "count", "low", "high",
        "confidence", "source", "version", "share",
    ),
    "certificates": ("scope", "version", "threshold", "units"),
    "archive": ("last", "size", "share", "payload"),
}  # fmt: skip
TRANSCRIPT = ("answers", "archive")  # long: each row is checked as it is read
KEYS = {"intents": "id", "ledger": "sequence", "measurements": "sequence", "answers": "sequence",
        "certificates": "sequence"}  # fmt: skip
COUNTED = ("ledger", "measurements", "answers")  # rows are only ever added to these
CERTIFICATES_2 = """CREATE TABLE certificates (sequence INTEGER PRIMARY KEY, scope TEXT UNIQUE NOT NULL,
    version INTEGER NOT NULL, threshold INTEGER NOT NULL, units BLOB NOT NULL) STRICT"""


def statements() -> tuple[str, ...]:
    """Return the statements that make the tables and indexes of the newest format."""
    return (*TABLES.values(), *INDEXES)
