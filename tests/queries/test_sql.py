"""SQL: one COUNT(*) with a condition and groups; all else is refused by name."""

from __future__ import annotations

import pytest

from queries.domain import CategoricalAttribute, Domain
from queries.errors import QueryError
from queries.numbers import IntegerAttribute, NumericAttribute
from queries.parsing import parse_line, parse_sql, parse_where, require_aligned

DOMAIN = Domain(
    (
        IntegerAttribute("age", 17, 90),
        NumericAttribute("income", (0, 10_000, 25_000, 50_000)),
        CategoricalAttribute("sex", ("Female", "Male"), missing=True),
        CategoricalAttribute("marital-status", ("Married", "Never-married", "Married_AF"), other=True),
        CategoricalAttribute("count", ("one", "two")),
    ),
    name="people",
)
ADVICE = "; write SELECT COUNT(*) FROM table WHERE condition GROUP BY attributes"


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("SELECT COUNT(*) FROM people", ""),
        ("select count ( * ) from PEOPLE;", ""),
        ("SELECT COUNT(*) AS n FROM people AS p WHERE p.age >= 65", "age >= 65"),
        ("SELECT COUNT(*) n FROM people WHERE people.sex = 'Male' -- men", "sex = 'Male'"),
        ('SELECT COUNT(*) FROM "people" WHERE "marital-status" <> \'Married\'',
         "\"marital-status\" <> 'Married'"),
        ("SELECT COUNT(*) FROM people WHERE age IN (30, 31) AND income < 2.5e4",
         "age IN (30, 31) AND income < 25000"),
        ("SELECT COUNT(*) FROM people WHERE sex IS NOT NULL", "sex IS NOT NULL"),
        ("SELECT COUNT(*) FROM people WHERE income > +.5E4", "income > 5000"),
        ("/* all */ SELECT COUNT(*) FROM people WHERE NOT (age < 30 OR age > 39)", "age BETWEEN 30 AND 39"),
    ],
)  # fmt: skip
def test_a_statement_without_groups_counts_like_its_condition(statement: str, where: str) -> None:
    grouped = parse_sql(statement, DOMAIN)
    assert (grouped.names, len(grouped)) == ((), 1)
    assert grouped.query.key() == parse_where(where, DOMAIN).key()


@pytest.mark.parametrize(
    ("like", "values"),
    [
        ("\"marital-status\" LIKE 'Married%'", "'Married', 'Married_AF'"),
        ("\"marital-status\" LIKE '%arried'", "'Married', 'Never-married'"),
        ("\"marital-status\" LIKE 'Marrie_'", "'Married'"),
        ("\"marital-status\" LIKE '%'", "'Married', 'Never-married', 'Married_AF'"),
    ],
)
def test_like_stands_for_the_declared_texts_that_match(like: str, values: str) -> None:
    query = parse_where(like, DOMAIN)
    assert query.key() == parse_where(f'"marital-status" IN ({values})', DOMAIN).key()
    negated = parse_where(like.replace("LIKE", "NOT LIKE"), DOMAIN)
    assert negated.key() == parse_where(f'"marital-status" NOT IN ({values})', DOMAIN).key()
    assert negated.key() == parse_where(f"NOT {like}", DOMAIN).key()


@pytest.mark.parametrize(
    ("like", "code", "message"),
    [
        ("sex LIKE 'f%'", "unknown_value",
         "no declared value of 'sex' matches LIKE 'f%'; upper and lower case count"),
        ("sex LIKE '.*'", "unknown_value",
         "no declared value of 'sex' matches LIKE '.*'; upper and lower case count"),
        ("age LIKE '3%'", "wrong_kind",
         "LIKE compares a categorical attribute with a text in quotes, got 'age'"),
        ("sex LIKE 3", "wrong_kind",
         "LIKE compares a categorical attribute with a text in quotes, got 'sex'"),
    ],
)  # fmt: skip
def test_a_like_that_fits_nothing_is_refused(like: str, code: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_where(like, DOMAIN)
    assert (caught.value.code, caught.value.message, caught.value.position) == (code, message, 0)


def test_groups_follow_the_select_list() -> None:
    grouped = parse_sql(
        "SELECT sex, COUNT(*) AS people, age FROM people WHERE age >= 65 GROUP BY age, people.sex", DOMAIN
    )
    assert (grouped.names, grouped.columns, grouped.count_column) == (
        ("sex", "age"),
        ("sex", "age"),
        "people",
    )
    assert len(grouped) == 3 * 74
    assert {label[0] for label in grouped.labels()} == {"Female", "Male", None}


def test_columns_have_the_names_that_they_are_given() -> None:
    grouped = parse_sql('SELECT count AS "how many", COUNT(*) n FROM people GROUP BY "how many"', DOMAIN)
    assert (grouped.names, grouped.columns, grouped.count_column) == (("count",), ("how many",), "n")


@pytest.mark.parametrize(
    ("statement", "position", "message"),
    [
        ("SELECT COUNT(*) FROM people JOIN b ON people.age = b.age", 33, "a join"),
        ("SELECT COUNT(*) FROM people, b", 29, "a join"),
        ("SELECT COUNT(*) FROM (SELECT 1)", 29, "a sub-query"),
        ("SELECT COUNT(*) FROM people HAVING COUNT(*) > 1", 35, "HAVING"),
        ("SELECT COUNT(*) FROM people LIMIT 3", 34, "LIMIT"),
        ("SELECT COUNT(*) FROM people OFFSET 3", 35, "OFFSET"),
        ("SELECT COUNT(*) FROM people ORDER BY 1", 37, "ORDER BY"),
        ("SELECT DISTINCT sex FROM people", 16, "DISTINCT"),
        ("SELECT COUNT(DISTINCT age) FROM people", 22, "COUNT(DISTINCT …)"),
        ("SELECT COUNT(age) FROM people", 13, "COUNT of anything but *"),
        ("SELECT COUNT(*) FROM people UNION SELECT 1", 7, "UNION"),
        ("SELECT COUNT(*) OVER () FROM people", 7, "a window function"),
        ("SELECT COUNT(*) FILTER (WHERE age = 30) FROM people", 7, "FILTER"),
        ("SELECT COUNT(*) FROM people GROUP BY ALL", None, "GROUP BY ALL"),
        ("SELECT COUNT(*) FROM people GROUP BY ROLLUP(sex)", 44, "ROLLUP"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex WITH ROLLUP", 42, "ROLLUP"),
        ("SELECT COUNT(*) FROM people GROUP BY CUBE(sex)", 42, "CUBE"),
        ("SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((sex))", 53, "GROUPING SETS"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY 1", 42, "GROUP BY with a number"),
        ("SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT)", 41, "TABLESAMPLE"),
        ("SELECT COUNT(*) FROM people; DROP TABLE people", 40, "a second statement"),
        ("SELECT COUNT(*) FROM people FOR UPDATE", 7, "FOR UPDATE"),
        ("SELECT COUNT(*) INTO t FROM people", 21, "SELECT INTO"),
        ("SELECT COUNT(*) FROM db.people", 21, "a table name with a dot"),
        ("SELECT COUNT(*) FROM read_csv('x')", 21, "a table that is no name"),
        ("SELECT * FROM people", 7, "*"),
        ("SELECT SUM(income) FROM people", 7, "SUM"),
        ("SELECT age + 1, COUNT(*) FROM people GROUP BY age", 7, "a computed column"),
        ("SELECT CASE WHEN age > 30 THEN 1 END, COUNT(*) FROM people", 17, "CASE"),
        ("SELECT COUNT(*) FROM people QUALIFY 1", 36, "QUALIFY"),
        ("SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR sex IN (1))", 35, "PIVOT"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(statement: str, position: int | None, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_sql(statement, DOMAIN)
    error = caught.value
    assert (error.code, error.message) == ("unsupported", f"{message} is not supported{ADVICE}")
    assert (error.position, error.text) == (position, statement)


@pytest.mark.parametrize("word", ["WITH", "DROP", "INSERT", "UPDATE", "DELETE", "CREATE", "EXPLAIN", "PRAGMA",
                                  "ATTACH", "COPY", "VALUES", "TABLE", "FROM"])  # fmt: skip
def test_any_other_statement_is_refused_by_its_first_word(
    word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError) as caught:
        parse_sql(f"  {word.lower()} people", DOMAIN)
    assert caught.value.message == f"expected a statement that begins with SELECT, got {word}{ADVICE}"
    assert caught.value.position == 2
    assert capfd.readouterr() == ("", "")  # the parser says nothing of its own


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("", "syntax", f"expected a statement that begins with SELECT, got nothing{ADVICE}"),
        ("SELECT COUNT(*)", "syntax", f"expected FROM people{ADVICE}"),
        ("SELECT COUNT(*) FROM persons", "unknown_table",
         "unknown table 'persons'; the session's table is people"),
        ('SELECT COUNT(*) FROM "People"', "unknown_table",
         "unknown table 'People'; the session's table is people; did you mean 'people'?"),
        ("SELECT sxe, COUNT(*) FROM people GROUP BY sxe", "unknown_attribute",
         "unknown attribute 'sxe'; declared are age, income, sex, marital-status, count; "
         "did you mean 'sex'?"),
        ("SELECT sex FROM people GROUP BY sex", "syntax",
         f"expected one COUNT(*) in the SELECT list, got 0{ADVICE}"),
        ("SELECT COUNT(*), COUNT(*) FROM people", "syntax",
         f"expected one COUNT(*) in the SELECT list, got 2{ADVICE}"),
        ("SELECT sex, COUNT(*) FROM people", "syntax",
         "SELECT lists 'sex', which GROUP BY does not name; add it there"),
        ("SELECT COUNT(*) FROM people GROUP BY sex", "syntax",
         "GROUP BY names 'sex', which SELECT does not list; add it there"),
        ("SELECT sex, COUNT(*) FROM people GROUP BY sex, sex", "syntax",
         "GROUP BY names 'sex' twice; name it once"),
        ("SELECT count, COUNT(*) AS n FROM people GROUP BY count", "bad_request",
         "two columns would be called 'count'; give one another name with AS"),
        ("SELECT sex AS a, age AS a, COUNT(*) FROM people GROUP BY sex, age", "bad_request",
         "two columns would be called 'a'; give one another name with AS"),
        ("SELECT sex, COUNT(*) AS low FROM people GROUP BY sex", "bad_request",
         "two columns would be called 'low'; give one another name with AS"),
        ("SELECT COUNT(*) FROM people WHERE age = 30 AND", "syntax",
         "expected a statement such as SELECT COUNT(*) FROM people WHERE age >= 30; "
         "it cannot be read near 'AND'"),
    ],
)  # fmt: skip
def test_a_statement_that_does_not_fit_says_why(statement: str, code: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_sql(statement, DOMAIN)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_a_statement_that_is_too_long_or_too_deep_is_refused() -> None:
    with pytest.raises(QueryError, match="at most 4,096 bytes"):
        parse_sql("SELECT COUNT(*) FROM people WHERE " + " OR ".join(["age = 30"] * 1000), DOMAIN)
    deep = "(" * 1900 + "age = 30" + ")" * 1900
    with pytest.raises(QueryError, match="nested too deeply") as caught:
        parse_sql(f"SELECT COUNT(*) FROM people WHERE {deep}", DOMAIN)
    assert caught.value.code == "too_long"


def test_a_line_may_hold_a_statement() -> None:
    question = parse_line('{"id": 1, "sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex"}', DOMAIN)
    assert [part.id for part in question.parts()] == [1, 1, 1]
    assert [part.request_id for part in question.parts()] == [None, None, None]
    plain = parse_line('{"id": 1, "sql": "SELECT COUNT(*) FROM people", "request_id": "a"}', DOMAIN)
    assert plain.parts() == (plain,)


def test_the_groups_of_a_marked_question_have_marks_that_no_analyst_can_give() -> None:
    line = '{"sql": "SELECT sex, COUNT(*) FROM people GROUP BY sex", "request_id": "a"}'
    marks = [part.request_id for part in parse_line(line, DOMAIN).parts()]
    assert marks == ["a", "a\n1", "a\n2"]
    with pytest.raises(QueryError, match="without control characters"):
        parse_line('{"where": "", "request_id": "a\\n1"}', DOMAIN)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"where": "", "sql": ""}', "expected one of the keys 'where' and 'sql', got both; "
         "an empty 'where' counts everybody"),
        ('{"sql": 3}', "sql must be a text"),
        ('{"sql": {"select": 1}}', "sql must be a text"),
    ],
)  # fmt: skip
def test_a_line_holds_a_condition_or_a_statement(line: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_line(line, DOMAIN)
    assert (caught.value.code, caught.value.message) == ("bad_request", message)


@pytest.mark.parametrize(
    ("where", "nearest"),
    [
        ("income >= 5000", "income >= 10000"),
        ("income > 25000", "income >= 25000"),
        ("income <= 10000", "income < 10000, or income < 25000"),
        ("income = 0", "income < 10000"),
        ("income BETWEEN 10000 AND 25000", "income >= 10000 AND income < 25000, or income >= 10000"),
        ("NOT income > 10000 AND sex = 'Male'", "income < 10000, or income < 25000"),
    ],
)  # fmt: skip
def test_questions_that_cut_cells_can_be_refused(where: str, nearest: str) -> None:
    with pytest.raises(QueryError) as caught:
        require_aligned(parse_where(where, DOMAIN))
    starts = f"; nearest to it: {nearest}; cells of 'income' begin at 0, 10000, 25000, 50000"
    for condition in nearest.split(", or "):
        require_aligned(parse_where(condition, DOMAIN))
    assert caught.value.message == f"the condition cuts cells, and only whole cells are asked for{starts}"
    assert caught.value.code == "unaligned"
    with pytest.raises(QueryError):
        require_aligned(parse_sql(f"SELECT sex, COUNT(*) FROM people WHERE {where} GROUP BY sex", DOMAIN))
    require_aligned(parse_where("income >= 10000", DOMAIN))


WIDE_CELLS = Domain(
    (
        IntegerAttribute("age", 0, 79, 80),
        NumericAttribute("gain", (0, 100)),
        CategoricalAttribute("sex", ("f", "m")),
    )
)


@pytest.mark.parametrize("where", ["age = 5", "age > 3 AND gain < 7", "gain > 3 AND sex = 'm'"])
def test_where_no_cell_is_decided_the_edges_are_told(where: str) -> None:
    with pytest.raises(QueryError) as caught:
        require_aligned(parse_where(where, WIDE_CELLS))
    assert caught.value.message == (
        "the condition cuts cells, and only whole cells are asked for; it decides no cell of an attribute: "
        "compare with an edge, or declare narrower cells; the edges of 'age' are 0, 80; "
        "the edges of 'gain' are 0, 100"
    )
    many = Domain(tuple(IntegerAttribute(f"a{number}", 0, 9, 10) for number in range(30)))
    with pytest.raises(QueryError, match=r"'a3' are 0, 10$"):
        require_aligned(parse_where("a7 = 5", many))
