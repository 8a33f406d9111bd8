"""Priors for a session to begin with: public ones alone."""

from __future__ import annotations

from typing import cast

from pmw.data import Table, as_source
from pmw.loop.priors import prior_of_model, prior_of_table
from pmw.public.prior import Prior
from pmw.session.public_model import PublicModel
from queries.domain import Domain, require_domain


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
    require_domain(domain)
    # By its type: a thing may say that it is of another class.
    if issubclass(type(source), PublicModel):
        return prior_of_model(cast("PublicModel", source).state.model, domain)
    table = cast("Table", source)
    return prior_of_table(as_source(table, Domain(domain.attributes, domain.name), None))
