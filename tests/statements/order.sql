-- ORDER BY, LIMIT, OFFSET and DISTINCT.
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY { region | n | 1 | 2 | COUNT(*) | AVG(age) | SUM(score) | -n | n * 2 | LENGTH(region), region | UPPER(region) } { ASC | DESC }
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n { ASC | DESC } LIMIT { 1 | 2 | 4 | 100 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n { ASC | DESC } LIMIT 2 OFFSET { 0 | 1 | 3 | 4 | 10 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n OFFSET { 0 | 2 | 5 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY region LIMIT 0
SELECT { age | sex } AS k, COUNT(*) AS n FROM people GROUP BY k ORDER BY k { ASC | DESC | NULLS FIRST | NULLS LAST | DESC NULLS FIRST | DESC NULLS LAST | ASC NULLS FIRST | ASC NULLS LAST }
SELECT age, SUM(age) AS s FROM people GROUP BY age ORDER BY s { ASC | DESC | NULLS FIRST | NULLS LAST | DESC NULLS FIRST | DESC NULLS LAST }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region ORDER BY { sex, region | region, sex | sex DESC, region | sex NULLS FIRST, n DESC | region DESC, n | 2, 1 | 1 DESC, 3 | n }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region ORDER BY region, n DESC LIMIT 5 OFFSET 2
SELECT 5 - age AS age, COUNT(*) AS n FROM people GROUP BY age ORDER BY age { LIMIT 2 | DESC LIMIT 3 | LIMIT 10 }
SELECT age % 2 AS g, SUM(age) AS age FROM people GROUP BY g ORDER BY age { DESC | ASC }
SELECT region, AVG(age) AS age FROM people GROUP BY region ORDER BY { age | age DESC | 2 | AVG(people.age) }
SELECT region, SUM(score) AS score FROM people GROUP BY region ORDER BY score { LIMIT 2 | DESC LIMIT 2 }
SELECT -age AS age, COUNT(*) AS n FROM people GROUP BY age ORDER BY { age | people.age | -people.age | n DESC }
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY CASE region WHEN 'south' THEN 1 ELSE 2 END, region
SELECT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY { n + AVG(age) | COUNT(*) FILTER (WHERE sex = 'f') DESC | MAX(score) - MIN(score), region | ROUND(AVG(age)), region DESC | n DESC, region | COUNT(age) / COUNT(*) }
SELECT UPPER(region) AS u, COUNT(*) AS n FROM people GROUP BY region ORDER BY { u | region DESC | n }
SELECT DISTINCT region FROM people ORDER BY region { ASC | DESC | LIMIT 2 }
SELECT DISTINCT sex, region FROM people ORDER BY { 1, 2 | region, sex DESC | sex NULLS FIRST, region }
SELECT DISTINCT region, COUNT(*) AS n FROM people GROUP BY region ORDER BY n
SELECT day, COUNT(*) AS n FROM people GROUP BY day ORDER BY day { ASC | DESC } LIMIT 3
SELECT member, COUNT(*) AS n FROM people GROUP BY member ORDER BY member { ASC | DESC }
SELECT DAYNAME(day) AS d, COUNT(*) AS n FROM people GROUP BY d ORDER BY { d | n DESC | MIN(ISODOW(day)), d }
SELECT age // 2 AS k, COUNT(*) AS n FROM people GROUP BY k HAVING n > 1000 ORDER BY n DESC LIMIT 2
SELECT region, COUNT(*) AS n FROM people WHERE age > 1 GROUP BY region HAVING COUNT(*) > 1000 ORDER BY AVG(score) DESC, region LIMIT 3 OFFSET 1
SELECT age > 2 AS big, COUNT(*) AS n FROM people GROUP BY big ORDER BY big { ASC | DESC | NULLS FIRST }
SELECT COUNT(*) AS n FROM people GROUP BY region ORDER BY { region | 1 DESC }
SELECT COUNT(*) AS n FROM people ORDER BY { n | 1 | COUNT(*) } LIMIT 1
