-- Sub-queries, WITH, joins of groups, UNION ALL and conditions on answers.
SELECT MAX(n) AS m, SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM people WHERE age > 3) AS q
SELECT COUNT(*) AS n FROM (SELECT DISTINCT age FROM people WHERE age < 3) AS q
SELECT * FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) AS q WHERE n > 7000 ORDER BY n DESC LIMIT 2
SELECT q.region, n, RANK() OVER (ORDER BY n DESC) AS r FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY 1) q
SELECT region FROM (SELECT region, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY region) q WHERE r <= 2
SELECT band, AVG(score) AS a FROM (SELECT *, CASE WHEN age < 3 THEN 'y' ELSE 'o' END AS band FROM people) q GROUP BY 1
SELECT r, COUNT(*) AS n FROM (SELECT UPPER(region) AS r, age FROM people WHERE age < 4) q WHERE r <> 'NORTH' GROUP BY r
SELECT half * 2 AS d, COUNT(*) AS n, AVG(two) AS m FROM (SELECT age // 2 AS half, age * 2 AS two FROM people) GROUP BY 1
WITH t AS (SELECT region, sex, COUNT(*) AS n FROM people GROUP BY ALL), u AS (SELECT * FROM t WHERE n > 2500) SELECT region, sex, n FROM u ORDER BY n
WITH people AS (SELECT * FROM people WHERE age > 3) SELECT sex, COUNT(*) AS n FROM people GROUP BY sex
WITH a AS (SELECT region, COUNT(*) AS n FROM people GROUP BY region), b AS (SELECT COUNT(*) AS total FROM people) SELECT region, n, 100.0 * n / total AS pct FROM a CROSS JOIN b ORDER BY pct DESC
SELECT a.region, a.n, b.m FROM (SELECT region, COUNT(*) AS n FROM people WHERE age < 4 GROUP BY 1) a LEFT JOIN (SELECT region, AVG(age) AS m FROM people WHERE sex = 'm' GROUP BY 1) b USING (region)
SELECT a.n, b.m FROM (SELECT COUNT(*) AS n FROM people) a, (SELECT AVG(age) AS m FROM people WHERE age > 3) b
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) > (SELECT COUNT(*) FROM people WHERE sex = 'f') / 2.0
SELECT (SELECT COUNT(*) FROM people WHERE sex = 'm') - (SELECT COUNT(*) FROM people WHERE sex = 'f') AS d
WITH a AS (SELECT * FROM people WHERE age > 3) SELECT region AS k, COUNT(*) AS n FROM a GROUP BY region UNION ALL SELECT sex, COUNT(*) FROM a GROUP BY sex UNION ALL SELECT 'all', COUNT(*) FROM a ORDER BY n DESC
SELECT COUNT(*) AS n, 'f' AS k FROM people WHERE sex = 'f' UNION ALL SELECT COUNT(*), 'm' FROM people WHERE sex = 'm' ORDER BY 1 DESC
(SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) UNION ALL (SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY 2 DESC LIMIT 1)
SELECT sex, CASE WHEN COUNT(*) > 9000 THEN 1 ELSE 0 END AS many, CASE WHEN COUNT(*) > 100 THEN 1 ELSE 0 END AS some FROM people GROUP BY sex
SELECT region, CASE WHEN COUNT(*) = 0 THEN NULL ELSE 100.0 * COUNT(*) FILTER (WHERE sex = 'f') / COUNT(*) END AS p FROM people GROUP BY region
SELECT region, COUNT(*) AS n FROM people WHERE age > (SELECT AVG(age) FROM people WHERE sex = 'm') * 1.2 AND sex = 'f' GROUP BY region
SELECT COUNT(*) AS n FROM people WHERE region = ANY(ARRAY['north', 'south']) AND sex <> ALL(ARRAY['m']) AND age = ANY(ARRAY[1, 2, 4]::int[])
SELECT COUNT(*) AS n FROM people WHERE age >= ('3'::int4) AND age > '-5'::bigint AND score < '1.5'::double
SELECT * FROM people WHERE { (0 = 1) | 1 <> 1 | FALSE }
SELECT age, region AS r FROM people LIMIT 0
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) BETWEEN SYMMETRIC 9000 AND 7000 => SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) BETWEEN 7000 AND 9000
SELECT COUNT(*) AS n FROM people WHERE age = (SELECT MAX(age) FROM people) -> other than <, <=, > or >=
SELECT a.n FROM (SELECT sex, COUNT(*) n FROM people GROUP BY sex) a, (SELECT region, COUNT(*) m FROM people GROUP BY region) b -> but all of their keys
SELECT a.n FROM (SELECT sex, COUNT(*) n FROM people GROUP BY sex) a JOIN (SELECT sex, COUNT(*) m FROM people GROUP BY sex) b ON a.sex = b.m -> but all of their keys
SELECT COUNT(*) FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 1) q -> LIMIT
SELECT sex FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex LIMIT 1) q WHERE n > 3 -> LIMIT
SELECT MEDIAN(n) FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) -> aggregate of groups
SELECT MIN(n) FROM (SELECT region, COUNT(*) FILTER (WHERE sex = 'f') AS n FROM people GROUP BY region) q -> groups without records also have
SELECT COUNT(*) FROM (SELECT DISTINCT pay FROM people) q -> cells hold several values
SELECT region, COUNT(*) / (SELECT COUNT(*) FROM people) FROM people GROUP BY CUBE (region) -> a number of all records beside totals
SELECT a.n FROM (SELECT region, COUNT(*) AS n FROM people GROUP BY region) a SEMI JOIN (SELECT region, COUNT(*) AS m FROM people GROUP BY region) b ON a.region = b.region -> a join other than
SELECT COUNT(*) FROM (SELECT age FROM people LIMIT 3) q -> LIMIT of records
SELECT zz FROM (SELECT sex, COUNT(*) AS n FROM people GROUP BY sex) q -> no column 'zz'
SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM people -> UNION
SELECT sex, COUNT(*) AS n FROM people GROUP BY sex UNION ALL SELECT region, COUNT(*) FROM people GROUP BY region ORDER BY n LIMIT 2 -> in an order of answers
