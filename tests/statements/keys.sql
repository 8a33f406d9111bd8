-- Keys of groups: attributes, and what is computed of them.
SELECT { age | sex | region | score | day | member } AS k, COUNT(*) AS n FROM people GROUP BY { 1 | k | ALL }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY { sex, region | 2, 1 | region, 1 | ALL }
SELECT p.sex, P.region AS r, COUNT(*) AS n FROM people p GROUP BY { 1, 2 | p.sex, r | p.sex, p.region }
SELECT people.sex, COUNT(*) AS n FROM people GROUP BY people.sex
SELECT COUNT(*) AS n, sex FROM people GROUP BY sex
SELECT COUNT(*) AS n FROM people GROUP BY sex
SELECT region AS "how many", COUNT(*) n FROM people GROUP BY "how many"
SELECT { age // 2 | age % 3 | age - 1 | -age | age * 2 | ABS(score) | age // 2 * 2 | score + age | age > 2 | score < 0 | age IS NULL } AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT { ROUND(age / 2.0) | FLOOR(age / 2.0) | CEIL(age / 2.0) | CAST(age AS DOUBLE) | CAST(age AS VARCHAR) | ROUND(score / 2.0) | FLOOR(score / 2.0) | CEIL(score / 2.0) | score // 2 | score % 2 } AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT CAST({ age | score } / 2.0 AS { INTEGER | BIGINT }) AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT { age | score } / 2 AS k, COUNT(*) AS n FROM people GROUP BY k => SELECT { age | score } // 2 AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT { UPPER(region) | LOWER(sex) | LEFT(region, 2) | RIGHT(region, 2) | region || '!' | LENGTH(region) | SUBSTRING(region, 2) | COALESCE(sex, 'none') | NULLIF(sex, 'f') | region LIKE '%th' | region = 'west' | sex IS NOT NULL } AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT CASE WHEN age < 2 THEN 'young' WHEN age >= 2 THEN 'old' { ELSE 'none' END | END } AS k, COUNT(*) AS n FROM people GROUP BY { k | 1 | ALL }
SELECT CASE WHEN age < 3 AND sex = 'f' THEN 'a' WHEN score < 0 THEN 'b' ELSE region END AS k, COUNT(*) AS n, AVG(score) AS v FROM people GROUP BY k
SELECT CASE sex WHEN 'f' THEN 'women' WHEN 'm' THEN 'men' ELSE 'unknown' END AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT CASE WHEN pay < 10 THEN 'little' ELSE 'much' END AS k, COUNT(*) AS n, AVG(age) AS v FROM people GROUP BY k
SELECT age // 2 AS k, region, COUNT(*) AS n FROM people WHERE age < 4 GROUP BY k, region
-- A function of a key stands beside it.
SELECT region, { UPPER(region) | LENGTH(region) | region || 'ern' | CASE region WHEN 'west' THEN 1 ELSE 2 END | LEFT(region, 1) } AS u, COUNT(*) AS n FROM people GROUP BY region
SELECT age, { age * 2 | -age | age // 2 | age > 2 | COALESCE(age, -1) | age % 2 = 0 | CAST(age AS VARCHAR) } AS u, COUNT(*) AS n FROM people GROUP BY age
SELECT age, sex, CASE WHEN sex = 'f' THEN age ELSE -1 END AS u, COUNT(*) AS n FROM people GROUP BY age, sex
SELECT UPPER(region) AS u, COUNT(*) AS n FROM people GROUP BY region
SELECT region, COUNT(*) AS n, { 7 | 'text' | 2.5 | TRUE | -1 } AS c FROM people GROUP BY region
SELECT DISTINCT { sex | region, sex | age // 2 } FROM people
SELECT DISTINCT sex FROM people WHERE sex = 'f'
SELECT { sex | region | age | day } FROM people GROUP BY 1
SELECT region FROM people WHERE region LIKE '%th' GROUP BY region
-- Of keys that several attributes tie together, those are rows that a record may have by the condition.
SELECT { age - score | age + score | age * score } AS a, { CEIL(score / 2.0) | age % 2 | score } AS b, COUNT(*) AS n FROM people WHERE { age > 1 | age > 3 AND score > 0 | age IN (0, 5) AND score IN (-3, 2) } GROUP BY a, b
SELECT age - score AS k, { COUNT(*) | AVG(age) } AS v FROM people WHERE { age IN (0, 5) AND score IN (-3, 2) | age = 5 AND score > 0 AND sex = 'f' } GROUP BY k
SELECT age - score AS a, score > 0 AND sex = 'f' AS b, COUNT(*) AS n FROM people WHERE age > 3 AND { sex = 'm' | region = 'west' } GROUP BY a, b
