-- What is refused, and the words that say so.
SELECT { SUM(DISTINCT age) | AVG(DISTINCT score) } FROM people -> unsupported: an aggregate of DISTINCT values is not supported; write SELECT
SELECT COUNT(DISTINCT age) FROM people WHERE age < 5 -> an aggregate of DISTINCT values @ age)
SELECT COUNT(DISTINCT age // 2) FROM people -> an aggregate of DISTINCT values
SELECT * FROM people -> unsupported: a list of records @ *
SELECT * FROM people WHERE age > 3 ORDER BY age LIMIT 5 -> a list of records
SELECT { age, sex | age + 1 | member | UPPER(region) } FROM people -> a list of records is not supported
SELECT , FROM people -> a list of records
SELECT COUNT(*) FROM people JOIN b ON people.age = b.age -> unsupported: a join with 'b' @ b ON
SELECT COUNT(*) FROM people, b -> unsupported: a join with 'b' @ b
SELECT COUNT(*) OVER () FROM people -> unsupported: a window over records @ COUNT
SELECT { RANK() OVER (ORDER BY age) | AVG(age) OVER (PARTITION BY sex) | SUM(age) OVER () } FROM people -> a window over records
SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT) -> unsupported: TABLESAMPLE @ 10 PERCENT
SELECT COUNT(*) FROM people; DROP TABLE people -> unsupported: a second statement @ DROP
SELECT COUNT(*) FROM people FOR UPDATE -> unsupported: FOR UPDATE @ COUNT
SELECT COUNT(*) INTO t FROM people -> unsupported: SELECT INTO @ t FROM
SELECT COUNT(*) FROM people QUALIFY 1 -> unsupported: this condition in HAVING @ 1
SELECT COUNT(*) FROM people WHERE (age, sex) < (1, 'm') -> unsupported: a tuple @ age, sex)
SELECT COUNT(*) FROM people PIVOT (SUM(age) FOR sex IN (1)) -> unsupported: PIVOT @ SUM
{ drop | explain | pragma | copy | values | table | from | insert into | create table } people -> expected a statement that begins with SELECT, got
SELECT COUNT(*) FROM persons -> unknown_table: unknown table 'persons'; the session's table is people
SELECT COUNT(*) FROM "People" -> unknown_table: unknown table 'People'; the session's table is people; did you mean 'people'?
SELECT sxe, COUNT(*) FROM people GROUP BY sxe -> unknown_attribute: unknown attribute 'sxe'; declared are age, sex, region, score, day, member, pay; did you mean 'sex'?
SELECT AVG(agee) FROM people -> unknown_attribute: unknown attribute 'agee' @ agee
SELECT sex, COUNT(*) FROM people -> syntax: 'sex' stands outside of an aggregate, and GROUP BY does not name it; add it there: GROUP BY sex
SELECT sex, AVG(age) FROM people GROUP BY sex HAVING score > 3 -> GROUP BY does not name
SELECT sex, AVG(age) FROM people GROUP BY sex HAVING oops > 3 -> unknown attribute 'oops'
SELECT age / 2, AVG(score) FROM people GROUP BY sex -> GROUP BY does not name
SELECT sex, COUNT(*) FROM people GROUP BY sex, sex -> syntax: GROUP BY names
SELECT sex AS count, COUNT(*) FROM people GROUP BY 1 -> bad_request: two columns would be called 'count'; give one another name with AS
SELECT sex AS n_low, COUNT(*) AS n FROM people GROUP BY sex -> two columns would be called 'n_low'
SELECT AVG(age), AVG(age) FROM people -> two columns
SELECT COUNT(*) FROM people WHERE age = 3 AND -> it cannot be read near 'AND' @ AND
SELECT COUNT(*) FROM people WHERE COUNT(*) > 5 -> unsupported: @ COUNT(*) >
SELECT AVG(age) FROM people GROUP BY { 0 | 2 | 9 } -> expected the place of a column
SELECT AVG(age) FROM people LIMIT { 1.5 | -1 | 'a' } -> unsupported: LIMIT of anything but a whole number
SELECT { AVG(sex) | SUM(region) | STDDEV(sex) | MEDIAN(region) | SUM(age / sex) | AVG(day) } FROM people -> needs numbers
SELECT PERCENTILE_CONT({ 1.2 | -0.5 | age }) WITHIN GROUP (ORDER BY age) FROM people -> [0, 1]
SELECT QUANTILE_CONT(age, -0.1) FROM people -> got -0.1
SELECT { SUM(1e400) | AVG(age * 1e308 * 10) | AVG(age) * 1e308 * 1e308 } FROM people -> at most 1e+100
SELECT AVG(*) FROM people -> AVG(*) of records
SELECT { ROUND(AVG(age), 1.5) | ROUND(AVG(age), age) | AVG(ROUND(age, 0.5)) } FROM people -> whole number of digits
SELECT AVG(age) / 0 FROM people -> bad_request: a division by 0
SELECT { SUM(AVG(age)) | AVG(COUNT(*)) } FROM people -> inside another
SELECT { BOOL_AND(sex) | STRING_AGG(sex, ',') | frob(sex) | MODE(sex) } FROM people -> here is not supported; write SELECT
SELECT COUNT() FROM people -> expected COUNT(*), got COUNT()
SELECT pay // 3 AS k, COUNT(*) FROM people GROUP BY k -> // of anything but whole numbers
SELECT pay > 5 AS k, COUNT(*) FROM people GROUP BY k -> cuts cells @ pay
SELECT CASE WHEN pay > 5 THEN 1 END AS k, COUNT(*) FROM people GROUP BY k -> cuts cells @ pay
SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 'b' -> compares two numbers or two texts @ COUNT(*) >
SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING sex = 5 -> wrong_kind: a condition on answers compares two numbers or two texts @ sex = 5
SELECT COUNT(*) FROM people WHERE sex = 'x' -> has the values 'f', 'm'
SELECT COUNT(*) FROM people WHERE age LIKE '3%' -> wrong_kind: LIKE compares texts @ age LIKE
SELECT COUNT(*) FROM people WHERE sex LIKE 3 -> LIKE compares a text with a pattern in quotes
SELECT COUNT(*) FROM people WHERE age { < 0 | > 5 | = 9 } -> attribute 'age'
SELECT COALESCE(sex, 1) AS k, COUNT(*) FROM people GROUP BY k -> COALESCE
SELECT { MIN(sex) | MAX(region) } FROM people -> needs numbers
SELECT sex, MIN(sex) OVER () FROM people GROUP BY sex -> a window that sums up keys
SELECT sex, FIRST_VALUE(sex) OVER (ORDER BY COUNT(*)) FROM people GROUP BY sex -> a window that sums up keys
SELECT sex, NTILE(2) OVER (ORDER BY COUNT(*)) FROM people GROUP BY sex -> is not supported
SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING RANK() OVER (ORDER BY COUNT(*)) = 1 -> a window in HAVING, where QUALIFY can stand,
SELECT sex, SUM(RANK() OVER (ORDER BY COUNT(*))) OVER () FROM people GROUP BY sex -> a window inside another one
SELECT sex, LAG(COUNT(*), 1 + 1) OVER (ORDER BY sex) FROM people GROUP BY sex -> LAG by anything but a whole number of rows
SELECT DISTINCT COUNT(*) AS n FROM people GROUP BY sex -> DISTINCT of rows whose keys are not all shown
SELECT COUNT(*) FROM people GROUP BY COUNT(*) -> GROUP BY an aggregate
SELECT COUNT(*) FROM people UNION SELECT 1 -> UNION
SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) FROM people -> is not supported
SELECT SOUNDEX(sex), COUNT(*) FROM people GROUP BY 1 -> is not supported
SELECT COUNT(*) FROM people WHERE EXTRACT(fortnight FROM day) = 3 -> expected a part of dates: YEAR, QUARTER, MONTH
SELECT COUNT(*) FROM people WHERE DATE_TRUNC({ age | 'mnth' }, day) = '2020-01-01' -> DATE_TRUNC takes a period in quotes first
SELECT COUNT(*) FROM people WHERE strftime(day, '{ %H:%M | %Q }') = 'x' -> the format has '%
SELECT COUNT(*) FROM people WHERE { MONTH(age) = 3 | DAYNAME(sex) = 'x' | region::date = '2020-01-01' } -> holds no dates
SELECT COUNT(*) FROM people WHERE { MONTH(day) = 'May' | strftime(day, '%Y') = 2020 } -> ; got
SELECT COUNT(*) FROM people WHERE { HOUR(day) = 3 | day + INTERVAL 3 HOUR > '2020-01-01' } -> which have no hours
SELECT COUNT(*) FROM people WHERE day > { CURRENT_DATE | NOW() } -> today's date is not supported
SELECT COUNT(*) FROM people WHERE EXTRACT(minute FROM day) = 3 -> is not supported; ask for HOUR, or compare with a time
SELECT COUNT(*) FROM people WHERE DATE_FORMAT(day, '%s') = 'x' -> the format has
SELECT COUNT(*) FROM people WHERE TO_CHAR(day, 'Month') = 'x' -> write FMMonth for Month
SELECT COUNT(*) FROM people WHERE MONTH('2020') = 3 -> MONTH(d) takes an attribute of dates as d, got '2020'
SELECT COUNT(*) FROM people WHERE { day > DATE '2020-02-30' | day > DATE '2020-02-30' + INTERVAL 1 DAY } -> '2020-02-30'
SELECT COUNT(*) FROM people WHERE day > DATE { '2020-01-01' + INTERVAL '99999 years' | '0001-01-01' - INTERVAL 1 DAY } -> the date lies outside of the calendar
SELECT COUNT(*) FROM people WHERE { day - INTERVAL 999999999 DAY > '2020-01-01' | YEAR(day - INTERVAL 999999 DAY) > 2020 } -> leaves the calendar
SELECT COUNT(*) FROM people WHERE { day > DATE '2020-01-01' + INTERVAL '1.5 days' | day + INTERVAL age DAY > '2020-01-01' } -> INTERVAL takes whole numbers and periods
SELECT COUNT(*) FROM people WHERE day > DATE '2020-01-01' + INTERVAL '3 fortnights' -> INTERVAL knows no 'fortnights'
SELECT COUNT(*) FROM people WHERE day > INTERVAL 3 DAY -> INTERVAL here is not supported
SELECT COUNT(*) FROM people WHERE { day > CAST('2020-01-01' AS DATE FORMAT 'x') | DATE(day, 'UTC') > '2020-01-01' | TO_CHAR(day, 'YYYY', 'x') = '2020' | DATE_TRUNC('month', day, 'UTC') = '2020-01-01' | WEEK(day, 1) = 3 } -> is not supported
SELECT COUNT(*) FROM people WHERE { age::timestamp = '2020-01-01' | CAST(region AS DATE) = '2020-01-01' } -> holds no dates
SELECT COUNT(*) FROM people WHERE MONTH(people.day) = 3 AND MONTH(u.day) = 3 -> a name with a dot
SELECT MONTH(score), COUNT(*) FROM people GROUP BY 1 -> holds no dates @ score
