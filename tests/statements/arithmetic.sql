-- Arithmetic on answers: operators, rounding and NULL. Halves, negative numbers and divisions by zero are among them.
SELECT region, COUNT(*) { + | - | * | / } { 2 | 2.5 | -3 } AS v FROM people GROUP BY region
SELECT region, { 100 | 2.5 | -3 } { + | - | * | / } COUNT(*) AS v FROM people GROUP BY region
SELECT region, { COUNT(*) | SUM(score) | AVG(age) } { + | - | * | / } { COUNT(age) | SUM(age) | MAX(age) } AS v FROM people GROUP BY region
SELECT region, { -COUNT(*) | -SUM(score) | -(AVG(age) - 1) | (COUNT(*) + 1) * 2 | 2 * (3 + COUNT(*)) / 4 | +COUNT(*) } AS v FROM people GROUP BY region
SELECT region, { ROUND | FLOOR | CEIL | CEILING | ABS }({ AVG(score) | COUNT(*) / 7.0 | -COUNT(*) / 1000.0 | AVG(age) * 10 }) AS v FROM people GROUP BY region
SELECT region, ROUND({ AVG(age) | SUM(score) / 7.0 | 100.0 * COUNT(*) / 36128 | COUNT(*) }, { 0 | 1 | 3 | -2 }) AS v FROM people GROUP BY region
SELECT region, { ROUND | FLOOR | CEIL }({ COUNT(*) / 2 | -COUNT(*) / 2 | COUNT(*) / 4.0 }) AS v FROM people GROUP BY region
SELECT region, CAST({ COUNT(*) / 2 | -COUNT(*) / 2 | AVG(age) * 10 | COUNT(*) } AS { INTEGER | BIGINT | DOUBLE }) AS v FROM people GROUP BY region
SELECT region, { CAST(COUNT(*) AS DOUBLE) / 3 | COUNT(*)::DOUBLE / 3 | COUNT(*)::INT | CAST(COUNT(*) AS FLOAT) / 4 | CAST(SUM(score) AS DOUBLE PRECISION) / COUNT(*) } AS v FROM people GROUP BY region
SELECT age, { NULLIF(COUNT(*), 0) | NULLIF(SUM(age), 0) | COUNT(*) / NULLIF(SUM(age), 0) | COALESCE(SUM(age), 0) | COALESCE(AVG(age), -1) | COALESCE(MIN(age), MAX(score)) | COALESCE(NULLIF(SUM(age), 0), 7) } AS v FROM people GROUP BY age
SELECT age, { COUNT(*) / SUM(age) | SUM(age) / SUM(age) | SUM(score) * 1.0 / NULLIF(SUM(age), 0) | 1.0 / NULLIF(SUM(age), 0) | COUNT(age) / COUNT(*) } AS v FROM people WHERE age > 0 OR age IS NULL GROUP BY age
SELECT COUNT(*) FILTER (WHERE age > 2) * { 100.0 | 1.0 } / COUNT(*) AS v FROM people { WHERE sex = 'f' | WHERE score < 0 }
SELECT { SUM(CASE WHEN sex = 'f' THEN 1.0 ELSE 0 END) / COUNT(*) | SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) * 100 / COUNT(*) | AVG(age) - 2 * AVG(age + 1) | SUM(age) / (COUNT(age) * 1.0) | (MAX(age) + MIN(age)) / 2 | STDDEV(age) / AVG(age) | STDDEV(age) * STDDEV(age) } AS v FROM people
SELECT age, { age * COUNT(*) | COUNT(*) + age | COUNT(*) / (age + 1) | age - AVG(score) | (age + 1) * 2 } AS v FROM people WHERE age IS NOT NULL GROUP BY age
-- Halves of a DOUBLE are cast to the even number, those of a DECIMAL away from zero.
SELECT CAST(MAX(age) * 0.5 AS INTEGER) AS v, CAST(0.5 - MAX(score) AS BIGINT) AS w, CAST(MAX(age) / 2 AS INTEGER) AS x, CAST(COUNT(*) * 0.5 AS INTEGER) AS y FROM people
SELECT region, CAST(COUNT(*) * 0.5 AS INTEGER) AS v, CAST(-COUNT(*) * 0.5 AS INTEGER) AS w, CAST(COUNT(*) * 5e-1 AS INTEGER) AS z, CAST(COUNT(*) / 2 AS INTEGER) AS x FROM people GROUP BY region
SELECT CAST(SUM(0.5) AS INTEGER) AS v FROM people WHERE age = 1
SELECT CAST(SUM(CASE WHEN age = 1 THEN 0.5 ELSE 0 END) AS INTEGER) AS v FROM people
SELECT CAST(SUM(score * 0.5) AS INTEGER) AS v, CAST(MIN(age + 0.5) AS INTEGER) AS w, CAST(MAX(age + 0.5) AS INTEGER) AS x, CAST(MAX(age + 0.5) - 1 AS INTEGER) AS y FROM people
SELECT CAST(AVG(age) * 0 + 2.5 AS INTEGER) AS v, CAST(MEDIAN(age) + 0.5 AS INTEGER) AS w, CAST(COALESCE(MAX(age) * 0.5, 1) AS INTEGER) AS x, CAST(ROUND(MAX(age) * 0.5, 1) AS INTEGER) AS y, CAST(CAST(MAX(age) AS DOUBLE) * 0.5 AS INTEGER) AS z FROM people
SELECT region, CAST(SUM(COUNT(*)) OVER () * 0.5 AS INTEGER) AS v, CAST(LAG(COUNT(*)) OVER (ORDER BY region) * 0.5 AS INTEGER) AS w, CAST(AVG(COUNT(*)) OVER () AS INTEGER) AS x FROM people GROUP BY region
SELECT age, CAST(age * 0.5 AS INTEGER) AS v, CAST(age / 2 AS INTEGER) AS w, COUNT(*) AS n FROM people GROUP BY age => SELECT age, CAST(age * 0.5 AS INTEGER) AS v, CAST(age // 2 AS INTEGER) AS w, COUNT(*) AS n FROM people GROUP BY age
