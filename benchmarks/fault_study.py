"""Studies for fault injection: small sessions whose streams meet positives, and fresh copies of them."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import pmw
from queries import CategoricalAttribute, Domain, IntegerAttribute, save_schema

__all__ = ["make_study", "Study", "STUDIES"]

_RECORDS = 3000
_QUESTIONS = 60
STUDIES = ("questions", "marginals", "wide")


@dataclass(frozen=True, slots=True)
class Study:
    """A session file in a folder of its own, and the questions of its stream.

    Args:
        path: the session file.
        questions: JSON Lines, each with an ``id`` and a ``request_id``.
        asked: how many questions there are.
    """

    path: Path
    questions: Path
    asked: int

    def copy(self, folder: Path) -> Study:
        """Return the study with a copy of its session in another folder, which is made again."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file in self.path.parent.glob(f"{self.path.name}*"):
            shutil.copy2(file, folder)
        return Study(folder / self.path.name, self.questions, self.asked)


def make_study(name: str, folder: Path) -> Study:
    """Return a new session that has answered nothing yet.

    Args:
        name: one of ``STUDIES``: single questions are tested, whole marginals, or single questions over a
            domain so wide that a refit asks the system for memory.
        folder: where the table, the questions and the session are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    domain, options = _domain(name), _OPTIONS[name]
    _frame().to_csv(folder / "people.csv", index=False)
    path = folder / f"{name}.pmw"
    pmw.open_session(folder / "people.csv", domain, epsilon=2, delta=1e-9, path=path, options=options).close()
    save_schema(domain, folder / "people.toml")
    generator = np.random.default_rng(7)
    questions = folder / f"{name}.jsonl"
    lines = []
    for number in range(_QUESTIONS):
        low, high = sorted(int(age) for age in generator.choice(np.arange(20, 60), 2, replace=False))
        where: dict[str, object] = {"age": {"between": [low, high]}, "member": {"eq": bool(number % 2)}}
        if number % 3 == 0:
            where["sex"] = {"in": ["Female"]}
        if number % 5 == 0:
            where["region"] = {"in": ["north", "east"]}
        lines.append(json.dumps({"id": number, "where": where, "request_id": f"r{number}"}))
    questions.write_text("".join(f"{line}\n" for line in lines))
    return Study(path, questions, len(lines))


_OPTIONS = {
    "questions": pmw.Options(test=pmw.TestKind.QUERY, threshold=15.0, update_limit=8),
    "marginals": pmw.Options(test=pmw.TestKind.MARGINAL, update_limit=4, composition=pmw.Composition.ZCDP),
    "wide": pmw.Options(test=pmw.TestKind.QUERY, threshold=15.0, update_limit=8),
}


def _domain(name: str) -> Domain:
    attributes: list[IntegerAttribute | CategoricalAttribute] = [
        IntegerAttribute("age", 20, 59),
        CategoricalAttribute("sex", ("Female", "Male")),
        CategoricalAttribute("region", ("north", "east", "south", "west")),
        CategoricalAttribute("member", (True, False)),
    ]
    if name != "questions":
        attributes += [IntegerAttribute(f"code{place}", 0, 15) for place in range(2 if name == "wide" else 1)]
    return Domain(tuple(attributes), name="people")


def _frame() -> pd.DataFrame:
    """Return records whose membership depends on age and sex, far from products of single attributes."""
    generator = np.random.default_rng(20)
    age = generator.integers(20, 60, _RECORDS)
    sex = np.where(generator.random(_RECORDS) < 0.5, "Female", "Male")
    region = generator.choice(["north", "east", "south", "west"], _RECORDS)
    codes = {f"code{place}": generator.integers(0, 16, _RECORDS) for place in range(2)}
    member = (age > 40) ^ (sex == "Male") & (generator.random(_RECORDS) < 0.5)
    return pd.DataFrame({"age": age, "sex": sex, "region": region, "member": member, **codes})
