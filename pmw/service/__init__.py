"""Service: many analysts ask the sessions of one process over HTTP, each with a token and a share."""

__all__: list[str] = []
