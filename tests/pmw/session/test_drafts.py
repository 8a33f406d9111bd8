"""Ends by privacy: what one person moves, the charge before all else, and the contract that takes it over."""

from __future__ import annotations

import fcntl
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import pmw
from pmw.cli.texts import table_text
from pmw.data import as_source
from pmw.errors import BudgetError, DataError, StoreError
from pmw.privacy.budget import NeighboringRelation
from pmw.privacy.noise import DiscreteLaplace
from pmw.privacy.random_bits import BitSource, repeatable_seed
from pmw.public.contract import guarantee
from pmw.public.pictures import headline
from pmw.public.report import best_guess
from pmw.session import drafts
from pmw.session.drafts import EDGES, DraftTerms, chosen_ends, draft_bounds, noisy_counts
from pmw.session.store.draft_file import read_charges, record_charge
from queries import UNITS, CategoricalAttribute, Domain, NumericAttribute
from queries.person import Person
from tests.waiting import joined

ADDED, REPLACED = NeighboringRelation.ADD_REMOVE, NeighboringRelation.REPLACE_ONE
DOMAIN = Domain((CategoricalAttribute("region", ("n", "s"), missing=True, other=True),), name="costs")


def table(records: int = 20_000) -> pd.DataFrame:
    draw = np.random.default_rng(2)
    amount = np.where(draw.random(records) < 0.7, 0.0, draw.lognormal(5, 1.5, records))
    return pd.DataFrame({"amount": amount, "region": draw.choice(["n", "s"], records)})


FRAME = table()


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    monkeypatch.setattr(drafts, "fresh_seed", lambda: repeatable_seed(7, next(numbers)))


@pytest.mark.parametrize("relation", [ADDED, REPLACED])
@pytest.mark.parametrize("records", [1, 2])
def test_one_person_moves_the_bins_by_what_the_noise_is_made_for(
    relation: NeighboringRelation, records: int
) -> None:
    """All records of a person, one more than are kept among them, beside somebody else's."""
    numbers = NumericAttribute("amount", EDGES, missing=True, other=True)
    domain = Domain((numbers,), name="draft", person=Person("id", records))

    def counts(own: tuple[str, ...]) -> NDArray[np.int64]:
        rows = [("b", "3"), *(("a", value) for value in own)]
        frame = pd.DataFrame(rows, columns=["id", "amount"])
        return as_source(frame, domain, bytes(32)).counts(("amount",)).counts

    values = ("-5", "0", "1e300", "1e-9", "x", "")
    lists = [
        own for size in range(records + 2) for own in itertools.combinations_with_replacement(values, size)
    ]
    found = [counts(own) for own in lists]
    pairs = itertools.product(found, found) if relation is REPLACED else ((one, counts(())) for one in found)
    moved = max(int(np.abs(one - other).sum()) for one, other in pairs)
    assert moved == records * (1 if relation is ADDED else 2)
    terms = DraftTerms(Fraction(1, 50), relation, records, "id")
    assert terms.noise == DiscreteLaplace(Fraction(moved * UNITS * 50))


def test_every_bin_has_noise_of_its_own_whatever_the_table_holds() -> None:
    noise = DraftTerms(Fraction(1, 50), ADDED).noise
    drawn = noisy_counts(np.zeros(len(EDGES) + 1, dtype=np.int64), noise, BitSource(repeatable_seed(1, 0)))
    assert len(set(drawn.tolist())) == len(EDGES) + 1
    scale = np.abs(drawn).mean() / float(noise.scale)
    assert 0.75 < scale < 1.3


@pytest.mark.usefixtures("repeated")
def test_ends_leave_about_one_percent_out_and_the_bound_holds(tmp_path: Path) -> None:
    amount, parts, held, lows = FRAME["amount"], [], [], []
    for number in range(30):
        terms = DraftTerms(Fraction(1, 10), ADDED)
        ends = draft_bounds(FRAME, "amount", terms, tmp_path / f"{number}.draft")
        assert ends.low is not None
        clipped = int(((amount < ends.low) | (amount > ends.high)).sum())
        parts.append(clipped / len(FRAME))
        held.append(clipped <= ends.most_clipped)
        lows.append(ends.low)
    assert np.median(lows) == 0
    assert 0.001 < np.median(parts) < 0.02
    assert all(held)


@pytest.mark.usefixtures("repeated")
def test_ends_of_both_signs_and_of_nobody(tmp_path: Path) -> None:
    terms = DraftTerms(Fraction(5), ADDED)
    signed = pd.DataFrame({"amount": np.linspace(-100, 100, 5000)})
    ends = draft_bounds(signed, "amount", terms, tmp_path / "a.draft")
    assert (ends.low, ends.high) == (-128, 128)
    positive = pd.DataFrame({"amount": np.linspace(40, 60, 5000)})
    ends = draft_bounds(positive, "amount", terms, tmp_path / "a.draft")
    assert (ends.low, ends.high) == (32, 64)
    nobody = draft_bounds(positive.iloc[:0], "amount", terms, tmp_path / "a.draft")
    assert (nobody.low, nobody.high) == (None, None)
    for bad in ("nan", "inf", "", "text"):
        frame = pd.DataFrame({"amount": [bad] * 3000 + ["50"] * 3000})
        assert draft_bounds(frame, "amount", terms, tmp_path / "a.draft").low == 32


@pytest.mark.usefixtures("repeated")
def test_ends_that_noise_alone_would_choose_are_not_told_and_charged_all_the_same(tmp_path: Path) -> None:
    path, terms = tmp_path / "a.draft", DraftTerms(Fraction(1, 50), ADDED)
    found = {
        records: [
            draft_bounds(pd.DataFrame({"x": np.resize(np.arange(1, 101), records)}), "x", terms, path)
            for _ in range(20)
        ]
        for records in (0, 500, 5000)
    }
    assert len(read_charges(path)) == 60
    for records in (0, 500):
        assert sum(one.low is None for one in found[records]) >= 17  # 1 of 100 is told by noise alone
        assert all(one.most_clipped >= records for one in found[records] if one.low is None)
    assert all(0 <= (one.low or 0.0) <= 4 and 128 <= (one.high or 0.0) <= 512 for one in found[5000])
    needed = math.ceil(found[0][0].needed)
    assert 550 < needed < 600  # of scale 50: 168 bins, each of which noise alone brings so far once in 16,800
    enough = [
        draft_bounds(pd.DataFrame({"x": [100.0] * needed}), "x", terms, path).high is not None
        for _ in range(40)
    ]
    assert sum(enough) >= 36
    assert draft_bounds(FRAME, "amount", replace(terms, neighboring_relation=REPLACED), path).needed == (
        pytest.approx(2 * found[0][0].needed)
    )


def test_what_is_told_is_a_function_of_the_noisy_counts() -> None:
    terms = DraftTerms(Fraction(1), ADDED)
    units = np.zeros(len(EDGES) - 1, dtype=np.int64)
    units[100], units[101] = 5000 * UNITS, 20 * UNITS
    ends = chosen_ends("amount", units, terms.charge("ends"), terms.noise)
    assert (ends.low, ends.high) == (EDGES[100], EDGES[101])  # 20 of 5,020 are within the aim
    assert ends.most_clipped > 20


def test_every_run_is_a_charge_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.draft"
    for _ in range(2):
        draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), path)
    draft_bounds(FRAME.assign(id=1), "amount", DraftTerms(Fraction(1, 3), REPLACED, 2, "id"), path)
    found = read_charges(path)
    assert [one.epsilon for one in found] == [Fraction(1, 50), Fraction(1, 50), Fraction(1, 3)]
    assert found[2].neighboring_relation is REPLACED
    assert (found[2].records_per_person, found[2].person_column) == (2, "id")
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_charge_is_made_for_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        draft_bounds(FRAME[["region"]], "amount", DraftTerms(Fraction(1), ADDED), tmp_path / "a.draft")
    assert not (tmp_path / "a.draft").exists()


def test_nothing_is_drawn_where_the_charge_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(drafts, "noisy_counts", lambda *given: drawn.append(1))
    (tmp_path / "other").write_text("something else\n")
    for path in (tmp_path / "none" / "a.draft", tmp_path / "other"):
        with pytest.raises(StoreError):
            draft_bounds(FRAME, "amount", DraftTerms(Fraction(1), ADDED), path)
    assert not drawn
    assert (tmp_path / "other").read_text() == "something else\n"


_KILLED = """
import os, signal, sys
from fractions import Fraction
from pathlib import Path
import pandas as pd
from pmw.privacy.budget import NeighboringRelation
from pmw.session import drafts
def killed(*given):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(drafts, sys.argv[3], killed)
terms = drafts.DraftTerms(Fraction(1, 50), NeighboringRelation.ADD_REMOVE, delta=Fraction(1, 10**9))
table = pd.DataFrame({"amount": [1.0, 2.0], "city": ["Oslo", "Oslo"]})
print(getattr(drafts, sys.argv[2])(table, sys.argv[4], terms, Path(sys.argv[1])))
"""


@pytest.mark.parametrize(
    ("draft", "moment", "attribute", "charges"),
    [
        ("draft_bounds", "as_source", "amount", 0),
        ("draft_bounds", "fresh_seed", "amount", 1),
        ("draft_bounds", "noisy_counts", "amount", 1),
        ("draft_bounds", "chosen_ends", "amount", 1),
        ("draft_keys", "key_holders", "city", 0),
        ("draft_keys", "fresh_seed", "city", 1),
        ("draft_keys", "noisy_counts", "city", 1),
        ("draft_keys", "passing_keys", "city", 1),
        ("draft_keys", "DraftedKeys", "city", 1),
    ],
)
def test_the_charge_is_durable_before_noise_is_drawn_or_anything_is_told(
    draft: str, moment: str, attribute: str, charges: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.draft"
    run = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path), draft, moment, attribute],
        capture_output=True, check=False, env=os.environ,
    )  # fmt: skip
    assert run.returncode == -signal.SIGKILL
    assert run.stdout == b""
    assert len(read_charges(path) if charges else list(tmp_path.iterdir())) == charges


def test_a_charge_is_synchronised_before_the_draft_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, fsync, lasting = tmp_path / "a.draft", os.fsync, list[str]()

    def noting(descriptor: int) -> None:
        fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            lasting.append(path.read_text())
        elif os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            lasting.append("the name")

    monkeypatch.setattr(os, "fsync", noting)
    for charges in (1, 2):
        lasting.clear()
        draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), path)
        assert lasting == [path.read_text(), "the name"]
        assert len(lasting[0].splitlines()) == charges


def test_two_drafts_at_once_are_both_charged(tmp_path: Path) -> None:
    path, charge = tmp_path / "a.draft", DraftTerms(Fraction(1, 50), ADDED).charge("ends of amount")
    record_charge(path, charge)
    adding = threading.Thread(target=record_charge, args=(path, replace(charge, what="keys of city")))
    with path.open("r+b") as file:  # another draft, in the middle of its own charge
        fcntl.flock(file, fcntl.LOCK_EX)
        known = file.read()
        adding.start()
        adding.join(0.3)
        assert path.read_bytes() == known
        file.write(known)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
    joined(adding)
    assert [one.what for one in read_charges(path)] == ["ends of amount"] * 2 + ["keys of city"]


@given(
    st.fractions(Fraction(1, 10**6), 1000),
    st.sampled_from([ADDED, REPLACED]),
    st.integers(1, 300),
)
def test_the_noise_of_a_draft_costs_no_more_than_its_charge_and_hardly_less(
    epsilon: Fraction, relation: NeighboringRelation, records: int
) -> None:
    terms = DraftTerms(epsilon, relation, records, "id")
    moved = (1 if relation is ADDED else 2) * records * UNITS
    cost = moved / terms.noise.scale  # of discrete Laplace noise, exactly
    assert cost <= terms.charge("ends").epsilon
    assert moved / (terms.noise.scale - 1) > epsilon


def test_a_line_that_was_never_finished_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.draft"
    terms = DraftTerms(Fraction(1, 50), ADDED)
    draft_bounds(FRAME, "amount", terms, path)
    path.write_bytes(path.read_bytes() + b'{"content": "online-p')
    assert len(read_charges(path)) == 1
    draft_bounds(FRAME, "amount", terms, path)
    assert len(read_charges(path)) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("delta"),
        lambda form: form.update(epsilon="0"),
        lambda form: form.update(epsilon="1/0"),
        lambda form: form.update(records_per_person=1.5),
        lambda form: form.update(neighboring_relation="other"),
        lambda form: form.update(content="else"),
    ],
)
def test_a_damaged_file_of_drafts_is_refused(change: Callable[[dict[str, Any]], Any], tmp_path: Path) -> None:
    path = tmp_path / "a.draft"
    draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), path)
    form = json.loads(path.read_text())
    change(form)
    path.write_text(json.dumps(form) + "\n")
    with pytest.raises(StoreError, match="no file of drafts"):
        read_charges(path)
    for text in ("", "[]\n"):
        path.write_text(text)
        with pytest.raises(StoreError):
            read_charges(path)


def test_the_contract_takes_charges_over(tmp_path: Path) -> None:
    for _ in range(2):
        draft_bounds(FRAME, "amount", DraftTerms(Fraction(1, 50), ADDED), tmp_path / "a.draft")
    charges = read_charges(tmp_path / "a.draft")
    charges = (charges[0], replace(charges[1], delta=Fraction(1, 10**9)))
    options, source = pmw.Options(drafts=charges), tmp_path / "t.csv"
    FRAME.to_csv(source, index=False)
    path = tmp_path / "s.pmw"
    with pmw.open_session(source, DOMAIN, epsilon=1, delta=1e-9, path=path, options=options) as session:
        session.export(tmp_path / "out.csv", format="csv")
        session.export(tmp_path / "out.model", format="model")
    told = (
        "epsilon = 1.04, delta = 2e-09 (epsilon = 1, delta = 1e-09 in the session and epsilon = 0.04, "
        "delta = 1e-09 in 2 drafts of its schema)"
    )
    with pmw.resume_session(path) as session:
        assert session.state.contract.options.drafts == charges
        assert told in guarantee(session.state.contract)
        assert session.verify().holds
        drafts = "of which drafts of the schema took epsilon 0.04, delta 1e-09."
        assert session.ledger().sentence().endswith(f"the cap is epsilon 1.04, delta 2e-09, {drafts}")
        assert [one["what"] for one in session.ledger().to_dict()["drafts"]] == ["ends of amount"] * 2
        form = session.status().to_dict()
        assert form["drafts"] == {"epsilon": 0.04, "delta": 1e-9}
        assert told in form["guarantee"]
    manifest = json.loads((tmp_path / "out.csv.manifest.json").read_text())
    assert told in json.dumps(manifest)
    assert told in pmw.load_model(tmp_path / "out.model").guarantee


def test_every_output_tells_the_epsilon_and_delta_of_session_and_drafts_together(tmp_path: Path) -> None:
    charge = replace(DraftTerms(Fraction(3, 4), ADDED).charge("keys"), delta=Fraction(1, 10**5))
    options, out = pmw.Options(drafts=(charge,)), tmp_path / "out.csv"
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta="1e-9", options=options) as session:
        answer, table = session.ask("region = 'n'"), session.sql("SELECT COUNT(*) FROM costs")
        every = session.ask_all(["region = 'n'", "region = 's'"])
        told = (1.75, 1.0001e-05)
        for spent in (answer.spent, table.spent, *(one.spent for one in every.each())):
            assert (spent.epsilon_cap, spent.delta) == told
        session.export(out, format="csv")
        session.export(tmp_path / "out.model", format="model")
        manifest = json.loads(out.with_name("out.csv.manifest.json").read_text())
        for form in (session.status().to_dict(), session.ledger().to_dict(), manifest):
            assert (form["epsilon_cap"], form["delta"]) == told
        shown = (
            answer.origin(),
            session.ledger().sentence(),
            session._repr_html_(),
            session.status()._repr_html_(),
            table_text(table),
            repr(session),
            repr(pmw.load_model(tmp_path / "out.model")),
            headline(session.state),
            next(one.detail for one in session.verify().checks if one.name == "the plans fit the contract"),
        )
        for text in shown:
            assert re.search(r"epsilon( |=| = )1[.]75, delta( |=| = )1[.]0001e-05", text), text
        assert best_guess(session.contract) == pytest.approx(0.85195, abs=1e-4)  # that of epsilon 1 is 0.731
    with pmw.open_session(FRAME, DOMAIN, epsilon=1, delta="1e-9") as session:
        assert session.ask("region = 'n'").spent.to_dict()["epsilon_cap"] == 1


@pytest.mark.parametrize(
    ("drafted", "options", "message"),
    [
        (DraftTerms(Fraction(1), REPLACED), {}, "other neighbouring tables"),
        (DraftTerms(Fraction(1), ADDED, 2), {}, "another number of records"),
        (DraftTerms(Fraction(1), ADDED), {"records_per_person": 2}, "another number of records"),
        (DraftTerms(Fraction(1), ADDED, 1, "id"), {}, "for other persons"),
    ],
)
def test_drafts_that_protect_others_are_refused(
    drafted: DraftTerms, options: dict[str, Any], message: str
) -> None:
    def opened() -> pmw.Session:
        chosen = pmw.Options(drafts=(drafted.charge("ends"),), **options)
        return pmw.open_session(FRAME, DOMAIN, epsilon=1, options=chosen)

    with pytest.raises(BudgetError, match=message):
        opened()


def test_deltas_that_come_to_one_are_refused() -> None:
    charge = replace(DraftTerms(Fraction(1), ADDED).charge("keys"), delta=Fraction(1, 2))
    with pytest.raises(BudgetError, match="come to 1"):
        pmw.open_session(FRAME, DOMAIN, epsilon=1, delta=1e-9, options=pmw.Options(drafts=(charge, charge)))


@pytest.mark.usefixtures("repeated")
def test_no_more_records_of_a_person_count_than_were_told(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"amount": [50.0] * 9000, "id": ["a"] * 8000 + [f"p{place}" for place in range(1000)]}
    )
    terms = DraftTerms(Fraction(5), ADDED, 2, "id")
    ends = draft_bounds(frame, "amount", terms, tmp_path / "a.draft")
    assert (ends.low, ends.high) == (32, 64)
    assert ends.records == pytest.approx(1002, abs=20)
