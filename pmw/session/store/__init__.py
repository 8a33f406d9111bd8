"""The session file: everything that a session must not forget, in one SQLite database."""
