"""Priors for a session to begin with: public ones alone."""

from __future__ import annotations

from pmw.data import Table, as_source
from pmw.loop import prior_of_model, prior_of_table
from pmw.public.prior import Prior
from pmw.session.public_model import PublicModel
from queries.domain import Domain


def public_prior(source: PublicModel | Table, domain: Domain) -> Prior:
    """Return what is public about a table like the session's, for ``Options.prior``.

    Args:
        source: a model that ``load_model`` read, of another session; or a table that is public: whoever calls
            this declares that nobody in it needs protection.
        domain: of the session. All its attributes have to be in the source; others are ignored.

    Raises:
        DataError: the table cannot be read, lacks an attribute or has no record that the schema keeps; or the
            model lacks an attribute, or declares it otherwise.

    Privacy: exact counts of a public table, and no look at the session's own. A prior that was made of the
        very records of the session, or of some of them, is not public: the session's answers then tell of
        them without any protection.
    """
    if isinstance(source, PublicModel):
        return prior_of_model(source.state.model, domain)
    return prior_of_table(as_source(source, Domain(domain.attributes, domain.name), None))
