"""Keys that are conditions are true or false in every form of a table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import pmw
from queries import Domain, IntegerAttribute


@pytest.mark.parametrize("missing", [False, True])
def test_conditions_as_keys_are_booleans_everywhere(*, missing: bool) -> None:
    kids = pd.Series(np.arange(60) % 6, dtype="Int64")
    domain = Domain((IntegerAttribute("kids", 0, 5, missing=missing),), name="families")
    frame = pd.DataFrame({"kids": kids.mask(kids == 5) if missing else kids})
    with pmw.open_session(frame, domain, epsilon=1000, delta=1e-9, options=pmw.Options(seed=1)) as session:
        table = session.sql("SELECT kids > 2 AS big, COUNT(*) AS n FROM families GROUP BY big")
    values = [False, True, None] if missing else [False, True]
    words = ["(missing)" if one is None else str(one).lower() for one in values]
    assert [line.split()[0] for line in table.to_text().splitlines()[1 : len(values) + 1]] == words
    assert [row["big"] for row in json.loads(json.dumps(table.to_dict()))["rows"]] == values
    assert table.to_pandas()["big"].tolist() == values
    pytest.importorskip("pyarrow", reason="Arrow tables need the extra frames")
    pytest.importorskip("polars", reason="Polars tables need the extra frames")
    assert str(table.to_arrow().schema.field("big").type) == "bool"
    assert table.to_polars()["big"].to_list() == values
