"""Opening a session over a table, and going on with one from its file."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from pmw.errors import NoiseError
from pmw.privacy.budget import Budget, Number
from pmw.privacy.random_bits import fresh_seed, person_key
from pmw.public.contract import agreed
from pmw.public.options import Options
from pmw.session.events import load_contract
from pmw.session.journal import PERSON_KEY, first_facts, next_seed
from pmw.session.session import Session
from pmw.session.store.locking import SessionLock
from pmw.session.store.store import SessionStore, writing
from pmw.session.table import refuse_given_table
from queries.domain import Domain

if TYPE_CHECKING:
    from pmw.data import Table


def open_session(
    data: Table,
    domain: Domain,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    path: str | Path | None = None,
    options: Options | None = None,
) -> Session:
    """Open a session over a sensitive table and measure its opening measurements.

    Args:
        data: a pandas table, or another with an Arrow stream; a CSV or Parquet file; a table of a database.
        domain: the declared attributes, and persons; other columns are ignored.
        epsilon: of the guarantee; positive. None for the smallest that keeps the accuracy of ``options``.
        delta: of the guarantee; 0 <= delta < 1. A small positive one, such as 1e-9, gains much accuracy. With
            0, also where none is given, opening measures no pair of attributes, unless it measures the whole
            table: then exports lack how two attributes go together (``status().pairs_held``).
        path: the session file to make; None keeps the session in memory.
        options: further choices.

    Raises:
        BudgetError: a parameter is out of range, the domain is too large for the model, or epsilon is too
            small for the accuracy, or missing without one.
        DataError: the table cannot be read or lacks a declared column.
        NoiseError: repeatable noise is asked for in a session file.
        SessionExistsError: the file exists.
        StoreError: the file cannot be written.

    Privacy: everything that the session ever releases is (epsilon, delta)-differentially private for the
        neighbours that ``options`` declare. Noise comes from the operating system's generator, unless
        ``options.seed`` makes it repeatable, which a session in a file refuses.
    """
    from pmw.data import as_place, as_source  # late: going on with a session plans nothing
    from pmw.planning.opening import open_contract
    from pmw.planning.refusals import check_model_size, check_neighbors

    domain, chosen = agreed(domain, options or Options())
    budget = None if epsilon is None else Budget.of(epsilon, delta)  # refused first
    check_model_size(domain, chosen)
    check_neighbors(domain, chosen)
    if budget is None or chosen.accuracy is not None:
        from pmw.planning.plans import contract_budget

        budget = contract_budget(domain, epsilon, delta, chosen)
    if chosen.seed is not None and path is not None:
        raise NoiseError("a session in a file never uses repeatable noise; leave the seed out")
    contract, plan = open_contract(domain, budget, chosen)
    target = None if path is None else Path(path)
    lock = None if target is None else SessionLock(target)
    with ExitStack() as undone:
        if lock is not None and target is not None:
            undone.callback(lambda: lock.release(forget=not target.exists()))
        secrets = {"fingerprint_key": fresh_seed()}
        if domain.person is not None:
            secrets[PERSON_KEY] = person_key(chosen.seed)
        source, place = as_source(data, domain, secrets.get(PERSON_KEY)), as_place(data)
        secrets["fingerprint"] = source.fingerprint(secrets["fingerprint_key"])
        facts = first_facts(contract, plan, secrets, None if place is None else place.to_dict())
        created = SessionStore.create(target, next_seed(chosen, 0), facts)
        store = undone.enter_context(closing(created))
        return Session(store, source, undone)


def resume_session(path: str | Path, data: Table | None = None, *, wait: float = 0) -> Session:
    """Go on with the session in a file, finishing first what a crash interrupted.

    Args:
        path: the session file.
        data: the table, for a session that was opened on one in memory; looked at when a test first needs it.
        wait: seconds that another process, or session, is waited for; 0 refuses at once.

    Raises:
        SessionCorruptError: the file is no session, damaged, or of another format.
        SessionLockedError: another process was using it all that time.
        SessionError: the file has several names (hard links), or ``wait`` is no number of seconds.
        DataError: the table is of no kind; the session reads its table from a file, and one is given; or an
            interrupted batch needs the table, and it cannot be read or differs.

    Privacy: ``data`` is for the custodian alone: whether it is the session's table is reported without noise.
    """
    if data is not None:
        from pmw.data import require_table  # as in session_table

        require_table(data)

    def check(store: SessionStore) -> None:
        load_contract(store)
        refuse_given_table(store, data)
        store.require_companion()

    with ExitStack() as undone:
        store = undone.enter_context(writing(Path(path), wait, check))
        store.take_over()
        return Session(store, data, undone)
