-- GROUPING SETS, ROLLUP and CUBE: keys that are taken together.
SELECT sex, region, COUNT(*) AS n, AVG(age) AS v FROM people WHERE sex IS NOT NULL GROUP BY { ROLLUP (sex, region) | CUBE (sex, region) | ROLLUP (region, sex) | sex, ROLLUP (region) | region, CUBE (sex) | GROUPING SETS ((sex), (region)) | GROUPING SETS ((sex, region), (sex), ()) | GROUPING SETS ((sex), (sex, region)) | GROUPING SETS (sex, ROLLUP (region)) | ROLLUP (sex), ROLLUP (region) | 1, ROLLUP (2) | ROLLUP ((sex, region)) | sex, region | ALL }
SELECT region, COUNT(*) AS n FROM people GROUP BY { ROLLUP (region) | CUBE (region) | GROUPING SETS (region, ()) | GROUPING SETS ((region), ()) | ROLLUP (1) }
SELECT age, sex, COUNT(*) AS n FROM people GROUP BY { ROLLUP (age, sex) | CUBE (age, sex) | GROUPING SETS ((age), (sex)) }
SELECT sex, region, member, COUNT(*) AS n FROM people GROUP BY { ROLLUP (sex, region, member) | CUBE (sex, region, member) | ROLLUP ((sex, region), member) | GROUPING SETS ((sex), (region, member), ()) }
SELECT region, GROUPING(region) AS g, COUNT(*) AS n FROM people GROUP BY ROLLUP (region) ORDER BY { g, region | g DESC, n | n }
SELECT sex, region, GROUPING(sex, region) AS g, COUNT(*) AS n FROM people GROUP BY { CUBE (sex, region) | ROLLUP (sex, region) }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY CUBE (sex, region) HAVING { GROUPING(region) = 1 | COUNT(*) > 9000 | region IS NULL AND GROUPING(region) = 0 | GROUPING(sex) = 1 AND GROUPING(region) = 0 }
SELECT { UPPER(region) | age // 2 | YEAR(day) | CASE WHEN age > 2 THEN 'old' ELSE 'young' END } AS k, COUNT(*) AS n FROM people GROUP BY ROLLUP (k)
SELECT region, UPPER(region) AS u, COALESCE(region, 'all') AS c, COUNT(*) AS n FROM people GROUP BY ROLLUP (region)
SELECT COUNT(*) AS n FROM people GROUP BY ()
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY ROLLUP (region)
SELECT region, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY GROUPING(region)) AS v FROM people GROUP BY ROLLUP (region)
SELECT region, COUNT(*) AS n FROM people GROUP BY ROLLUP (region) ORDER BY n DESC LIMIT { 1 | 3 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region { WITH ROLLUP | WITH CUBE } -> is not supported
SELECT GROUPING(sex), COUNT(*) FROM people GROUP BY region -> GROUPING of what GROUP BY does not name
SELECT COUNT(*) FROM people GROUP BY CUBE (age, sex, region, score, day, member, age) -> at most 64 grouping sets
