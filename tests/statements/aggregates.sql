-- Aggregates of records, with and without groups.
SELECT { SUM | AVG | MEDIAN | MIN | MAX | STDDEV | STDDEV_POP | STDDEV_SAMP | VARIANCE | VAR_POP | VAR_SAMP | COUNT }({ age | score | score + 1 | score * 2 }) AS v FROM people
SELECT { SUM | AVG | MEDIAN | MIN | MAX | STDDEV | VAR_POP }({ age - score | ABS(score) | age // 2 | -age }) AS v FROM people WHERE { sex = 'f' | region <> 'west' }
SELECT { SUM | AVG | MIN | MAX | MEDIAN | STDDEV | COUNT }(pay) AS v FROM people { WHERE age > 2 | WHERE pay < 10 }
SELECT region, { SUM | AVG | MEDIAN | MIN | MAX | STDDEV }(score) AS v, COUNT(*) AS n FROM people GROUP BY region
SELECT age, { SUM(age) | AVG(age) | MIN(age) | COUNT(age) | MEDIAN(age) } AS v FROM people GROUP BY age
SELECT sex, region, AVG(age) AS v, SUM(score) AS s FROM people WHERE age <> 2 GROUP BY sex, region
SELECT { PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) | PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY score DESC) | QUANTILE_CONT(age, 0.2) | PERCENTILE_CONT(0) WITHIN GROUP (ORDER BY age) | PERCENTILE_CONT(1) WITHIN GROUP (ORDER BY age) } AS v FROM people
SELECT { CORR(age, score) | CORR(age, age * age) | CORR(age, CASE WHEN sex = 'm' THEN 1 ELSE 0 END) } AS v FROM people
SELECT sex, CORR(age, score) AS v FROM people GROUP BY sex
SELECT { SUM(1) | SUM(3) | SUM(age + 1) | COUNT(1) | COUNT(sex) | COUNT_IF(age > 2) | COUNTIF(sex = 'f') | SUM(0.5) } AS v FROM people
SELECT { SUM | COUNT }(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS v FROM people
SELECT { SUM(CASE WHEN age > 3 THEN 1 END) | COUNT(CASE WHEN age > 3 THEN 1 END) | SUM(CASE WHEN age > 3 THEN score END) | AVG(CASE WHEN age > 3 THEN 1.0 ELSE 0 END) | MAX(CASE WHEN age < 3 THEN age END) | COUNT(CASE WHEN age > 3 THEN sex END) } AS v FROM people
SELECT { SUM(COALESCE(age, 0)) | AVG(COALESCE(age, 10)) | AVG(NULLIF(age, 0)) | COUNT(NULLIF(age, 0)) | SUM(age * score) | AVG(age % 2) | SUM(GREATEST(age, score)) | COUNT(COALESCE(age, 1)) | SUM(LENGTH(region)) | AVG(IF(age > 2, 1, 0)) } AS v FROM people
SELECT { COUNT(*) | SUM(age) | AVG(age) | MIN(age) | MAX(score) | MEDIAN(age) | STDDEV(score) } FILTER (WHERE { sex = 'f' | age > 2 AND region = 'north' }) AS v FROM people
SELECT region, COUNT(*) FILTER (WHERE sex = 'f') AS f, AVG(age) FILTER (WHERE sex = 'm') AS m FROM people WHERE age IS NOT NULL GROUP BY region
SELECT { SUM(sex = 'f') | AVG(CAST(age > 2 AS INTEGER)) | SUM(CAST(sex = 'f' AS INTEGER)) | SUM((age > 2)::INT) } AS v FROM people
SELECT { SUM | AVG | MIN | MAX | COUNT | MEDIAN | STDDEV }(age) AS v FROM people WHERE age IS NULL
SELECT age, SUM(age) AS s, SUM(age) * 1.0 / COUNT(*) AS r FROM people GROUP BY age
SELECT MIN(age) AS lo, MAX(age) AS hi, MAX(age) - MIN(age) AS spread FROM people WHERE region = { 'north' | 'west' }
SELECT COUNT(*) AS a, COUNT(age) AS b, COUNT(*) - COUNT(age) AS c FROM people GROUP BY sex
SELECT SUM(age) AS v FROM people WHERE age // 2 * 2 = 2
SELECT AVG(age) FROM people
SELECT sex, COUNT(*), AVG(age), MAX(score) FROM people GROUP BY sex
-- A sum of a condition that is unknown of each record is NULL.
SELECT age, { SUM(CAST(age > 2 AS INTEGER)) | SUM((age > 2)::INT) | SUM(age > 2) | SUM(CASE WHEN age > 2 THEN 1 ELSE 0 END) | SUM(CASE WHEN age > 2 THEN 1 END) } AS v FROM people GROUP BY age
SELECT { SUM(age > 2) | SUM(CAST(NOT age = 1 AS INTEGER)) | SUM(CAST(age > 2 AND sex = 'f' AS INTEGER)) | SUM(age IS NULL) } AS v FROM people WHERE age IS NULL
SELECT sex, SUM(CAST(age > 2 AND sex = 'f' AS INTEGER)) AS v FROM people WHERE age > 1 GROUP BY sex
SELECT region, SUM(CAST(pay > 5 AS INTEGER)) AS v FROM people GROUP BY region
SELECT COUNT(DISTINCT region) AS n FROM people { WHERE age > 2 |  }
SELECT sex, COUNT(DISTINCT region) AS v, COUNT(*) AS n FROM people GROUP BY sex
SELECT COUNT(DISTINCT sex) AS w, SUM(score) AS v FROM people WHERE NOT (age < 10)
