-- Statements that were once answered otherwise.
-- A function of a key is known in each row.
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY CASE region WHEN 'south' THEN 1 WHEN 'east' THEN 2 ELSE 3 END, n
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING LENGTH(region) = 5 ORDER BY LOWER(region)
SELECT CASE region WHEN 'north' THEN 'cold' ELSE region || 'ern' END AS w, COUNT(*) AS n FROM people GROUP BY region
SELECT UPPER(region) AS u, CASE u WHEN 'NORTH' THEN 1 ELSE 2 END AS k, COUNT(*) AS n FROM people GROUP BY region
SELECT COALESCE(region, 'all') AS g, UPPER(region) AS u, GROUPING(region) AS t, COUNT(*) AS n FROM people GROUP BY ROLLUP (region)
SELECT region, member, member = TRUE AND region = 'north' AS b, COUNT(*) AS n FROM people GROUP BY region, member
SELECT age, age * 2 + 1 AS k, age // 2 AS h, COUNT(*) AS n FROM people WHERE age > 3 GROUP BY age
-- ORDER BY takes the output's name first.
SELECT 5 - age AS age, COUNT(*) AS n FROM people WHERE age >= 0 GROUP BY age ORDER BY { age | people.age | age + 0 | n } LIMIT 2
SELECT 5 - score AS score, COUNT(*) AS n FROM people WHERE score > 0 GROUP BY score HAVING score > 1
-- Keys that are conditions are true or false.
SELECT age > 2 AS big, COUNT(*) AS n FROM people GROUP BY big HAVING { big | NOT big | big IS NULL }
SELECT CASE WHEN age > 2 THEN TRUE ELSE FALSE END AS big, COUNT(*) AS n FROM people GROUP BY 1
SELECT { CAST(age > 2 AS INTEGER) | CAST(age > 2 AS VARCHAR) | age > 2 AND age < 4 | CAST(age > 2 AS INTEGER) + 1 | CASE WHEN age > 2 THEN age END } AS k, COUNT(*) AS n FROM people GROUP BY 1
-- A CAST of a half.
SELECT CAST({ age * 0.5 | age + 0.5 | -age / 2.0 | age * 5e-1 | CAST(age AS DOUBLE) * 0.5 | CASE WHEN age > 2 THEN 0.5 ELSE 1 END | CASE WHEN age > 2 THEN 5e-1 ELSE 1 END | ABS(age - 2.5) | GREATEST(age, 2.5) | ROUND(age / 2.0, 1) } AS INTEGER) AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT age, { CAST(age * 0.5 AS INTEGER) | CAST(-age / 2.0 AS INTEGER) | ROUND(-age / 2.0) | ROUND(age * 0.5) | FLOOR(-age / 2.0) | CEIL(-age / 2.0) | -age // 2 | -age % 2 } AS k, COUNT(*) AS n FROM people GROUP BY age
SELECT CAST({ MAX(age) * 5e-1 | MAX(age) * 0.5 | MAX(age) / 2 | 1e0 * MAX(age) / 2 } AS INTEGER) AS v FROM people
-- SUM of what is NULL by the declaration.
SELECT SUM(age) AS s, AVG(age) AS a, MIN(age) AS m, COUNT(age) AS n FROM people WHERE age IS NULL
SELECT age, SUM(age) AS s, SUM(age) * 1.0 / COUNT(*) AS r FROM people GROUP BY age HAVING age IS NULL
SELECT SUM(age) AS s, SUM(1) AS o, COUNT(*) AS n FROM people WHERE age > 3 AND age < 2
SELECT SUM(age) FILTER (WHERE age IS NULL) AS s, SUM(CASE WHEN age IS NULL THEN 1 END) AS n FROM people
SELECT SUM(CASE WHEN age > 3 THEN 1 END) AS s, SUM(CASE WHEN age > 3 THEN 1 ELSE 0 END) AS z, SUM(age > 3) AS c FROM people WHERE age < 2
SELECT COALESCE(SUM(age), 0) AS z, COALESCE(AVG(age), -1) AS a FROM people WHERE age IS NULL
SELECT age, { SUM | MAX }(SUM(age)) OVER () AS s FROM people GROUP BY age HAVING age = 2 OR age IS NULL
-- What is of no key.
SELECT UPPER(region) AS u, COUNT(*) AS n FROM people GROUP BY sex -> a value of single records
SELECT age % 2 AS g, SUM(age) AS age FROM people GROUP BY g { HAVING age > 3 | ORDER BY age + 0 } -> 'age' stands outside of an aggregate
