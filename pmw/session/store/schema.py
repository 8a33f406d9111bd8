"""The tables of a session file.

Rows of ``meta``, ``secrets`` and ``certificates`` end with a checksum of the columns before it, and so do
single answers that drew no noise. Charges, measurements, measured answers and blocks of others have none: the
chain covers them, and with a block's row the hash of its answers.
"""

from __future__ import annotations

FORMAT_VERSION = 13

TABLES = {
    "meta": """CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "secrets": """CREATE TABLE secrets (key TEXT PRIMARY KEY, value BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "ledger": """CREATE TABLE ledger (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    event TEXT NOT NULL, label TEXT NOT NULL, epsilon TEXT, rho TEXT NOT NULL, mu_squared TEXT,
    booked TEXT NOT NULL) STRICT""",
    "measurements": """CREATE TABLE measurements (sequence INTEGER PRIMARY KEY, intent INTEGER NOT NULL,
    kind TEXT NOT NULL, what TEXT NOT NULL, units BLOB NOT NULL, noise TEXT NOT NULL) STRICT""",
    "answers": """CREATE TABLE answers (sequence INTEGER PRIMARY KEY, request_id TEXT UNIQUE,
    query_key BLOB NOT NULL, query TEXT NOT NULL, count REAL NOT NULL, low REAL, high REAL,
    confidence REAL NOT NULL, source TEXT NOT NULL, version INTEGER NOT NULL, share REAL NOT NULL,
    kind TEXT, typical_low REAL, typical_high REAL, analyst TEXT NOT NULL, settled INTEGER NOT NULL,
    checksum BLOB) STRICT""",
    # Runs of answers that drew no noise: what they have in common, how many have a kind, how many settled
    # their questions first, and all else.
    "blocks": """CREATE TABLE blocks (sequence INTEGER PRIMARY KEY, size INTEGER NOT NULL,
    analyst TEXT NOT NULL, confidence REAL NOT NULL, share REAL NOT NULL, version INTEGER NOT NULL,
    kinds INTEGER NOT NULL, settled INTEGER NOT NULL, keys BLOB NOT NULL, hash BLOB NOT NULL,
    answers BLOB NOT NULL) STRICT""",
    # Who asked again what was answered to somebody else.
    "repeats": """CREATE TABLE repeats (analyst TEXT NOT NULL, answer INTEGER NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (analyst, answer)) STRICT""",
    # A link covers the chained rows after those of the link before it, up to these numbers.
    "chain": """CREATE TABLE chain (sequence INTEGER PRIMARY KEY, ledger INTEGER NOT NULL,
    measurements INTEGER NOT NULL, blocks INTEGER NOT NULL, answers INTEGER NOT NULL,
    link BLOB NOT NULL) STRICT""",
    "certificates": """CREATE TABLE certificates (sequence INTEGER PRIMARY KEY, scope TEXT UNIQUE NOT NULL,
    version INTEGER NOT NULL, threshold INTEGER NOT NULL, units BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
    "snapshots": """CREATE TABLE snapshots (version INTEGER PRIMARY KEY, duals BLOB NOT NULL,
    checksum BLOB NOT NULL) STRICT""",
}
INDEXES = (
    # few, or none: of those alone whose asker is known
    "CREATE INDEX answers_by_analyst ON answers (analyst) WHERE analyst <> ''",
    "CREATE INDEX answers_by_query ON answers (query_key)",
    # few: opening a session looks each of them up
    "CREATE INDEX answers_measured ON answers (source) WHERE source = 'measured'",
)
# What a checksum, or a link, is of. A snapshot's is its own: a damaged one is ignored.
COLUMNS = {
    "meta": ("key", "value"),
    "secrets": ("key", "value"),
    "ledger": ("intent", "event", "label", "epsilon", "rho", "mu_squared", "booked"),
    "measurements": ("intent", "kind", "what", "units", "noise"),
    "answers": (
        "request_id", "query_key", "query", "count", "low", "high",
        "confidence", "source", "version", "share", "kind", "typical_low", "typical_high", "analyst",
        "settled",
    ),
    "blocks": ("size", "analyst", "confidence", "share", "version", "kinds", "settled", "keys", "hash"),
    "repeats": ("analyst", "answer"),
    "certificates": ("scope", "version", "threshold", "units"),
}  # fmt: skip
SEALED = (
    "meta",
    "secrets",
    "answers",
    "repeats",
    "certificates",
)  # have a checksum; measured answers do not
# Which rows the chain covers. Rows are only ever added to these tables.
CHAINED = {"ledger": "TRUE", "measurements": "TRUE", "blocks": "TRUE", "answers": "source = 'measured'"}


def statements() -> tuple[str, ...]:
    """Return the statements that make the tables and indexes of a session file."""
    return (*TABLES.values(), *INDEXES)
