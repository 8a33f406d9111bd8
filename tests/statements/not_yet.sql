-- What DuckDB answers, and a session does not yet.
SELECT region, { COUNT(*) % 7 | COUNT(*) // 7 | COUNT(*) ** 2 | POWER(COUNT(*), 2) | SQRT(COUNT(*)) | LN(COUNT(*)) | GREATEST(COUNT(*), 9000) | LEAST(COUNT(*), 9000) | CASE WHEN COUNT(*) > 9000 THEN 'many' ELSE 'few' END | COUNT(*) > 9000 | NULLIF(COUNT(*), 6918) | SIGN(SUM(score)) | ROUND(AVG(age)) = 2 | IF(COUNT(*) > 9000, 1, 0) } AS v FROM people GROUP BY region
SELECT region, CAST(AVG(age) AS DECIMAL(10, 2)) AS v FROM people GROUP BY region
SELECT SQRT(VAR_POP(age)) AS v FROM people
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) { IN | NOT IN } (8223, NULL)
SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING { (COUNT(*) > 5000) IS TRUE | COUNT(*) > 5000 IS FALSE | COUNT(*) IS DISTINCT FROM 8340 | TRUE | FALSE | COUNT(*) > 4000 AND TRUE }
SELECT region, COUNT(*) AS n FROM people GROUP BY ALL ORDER BY ALL
SELECT region, COUNT(COUNT(*)) OVER () AS v FROM people GROUP BY region
SELECT COUNT(*) AS n FROM people WHERE member IS NOT NULL
SELECT EXTRACT(EPOCH FROM day) AS "time", COUNT(*) AS value FROM people GROUP BY 1 ORDER BY 1
WITH totals AS (SELECT COUNT(*) AS t FROM people) SELECT region, COUNT(*) * 1.0 / MAX(t) AS share FROM people, totals GROUP BY region
