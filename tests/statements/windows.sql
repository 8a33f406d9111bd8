-- Windows over the rows of a statement: ranks, sums, shares and neighbours.
SELECT region, { ROW_NUMBER | RANK | DENSE_RANK }() OVER (ORDER BY { COUNT(*) | COUNT(*) DESC | AVG(age) | region | region DESC | LENGTH(region), region }) AS v, COUNT(*) AS n FROM people GROUP BY region
SELECT sex, region, { RANK | DENSE_RANK | ROW_NUMBER }() OVER (PARTITION BY { sex | region | sex, region } ORDER BY { COUNT(*) DESC | region, sex }) AS v FROM people GROUP BY sex, region
SELECT age, { RANK | DENSE_RANK }() OVER (ORDER BY { age // 2 | age > 2 | age NULLS FIRST | age DESC | MAX(score) }) AS v FROM people GROUP BY age
SELECT region, { SUM | AVG | MIN | MAX }({ COUNT(*) | SUM(score) }) OVER () AS v FROM people GROUP BY region
SELECT sex, region, { SUM | AVG | MIN | MAX }({ COUNT(*) | AVG(age) }) OVER (PARTITION BY { sex | region }) AS v FROM people GROUP BY sex, region
SELECT sex, region, COUNT(*) OVER ({ PARTITION BY sex | ORDER BY region | PARTITION BY region ORDER BY sex }) AS v FROM people GROUP BY sex, region
SELECT sex, region, SUM(COUNT(*)) OVER (PARTITION BY { sex | region } ORDER BY { COUNT(*) | COUNT(*) DESC | region, sex }) AS v FROM people GROUP BY sex, region
SELECT age, { LAG | LEAD }(COUNT(*){ , 1 | , 2 | , 1, 0 | , 3, -1 | , 0 }) OVER (ORDER BY { age | age DESC | COUNT(*) }) AS v FROM people GROUP BY age
SELECT age, { LAG(COUNT(*)) | LEAD(SUM(score)) | LAG(age) | LEAD(age, 2) | LAG(age, 1, -1) } OVER (ORDER BY age) AS v FROM people GROUP BY age
SELECT region, { LAG(region) | LEAD(region, 1, 'none') | FIRST_VALUE(region) | LAST_VALUE(region) } OVER (ORDER BY region { ASC | DESC }) AS v, COUNT(*) AS n FROM people GROUP BY region
SELECT age, { FIRST_VALUE | LAST_VALUE }(COUNT(*)) OVER (ORDER BY { age | age DESC | COUNT(*) DESC }) AS v FROM people GROUP BY age
SELECT age, COUNT(*) { - | * 1.0 / } LAG(COUNT(*)) OVER (ORDER BY age) AS v FROM people GROUP BY age
SELECT sex, region, { COUNT(*) | SUM(age) } * { 100.0 | 1.0 } / SUM({ COUNT(*) | SUM(age) }) OVER { () | (PARTITION BY sex) | (PARTITION BY region) } AS v FROM people GROUP BY sex, region
SELECT region, { ROUND(1.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 3) | ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) | COUNT(*) / SUM(COUNT(*)) OVER () | COUNT(*) - AVG(COUNT(*)) OVER () | COUNT(*) / MAX(COUNT(*)) OVER () | 1 - COUNT(*) / SUM(COUNT(*)) OVER () } AS v FROM people GROUP BY region
SELECT region, COALESCE(LAG(COUNT(*)) OVER (ORDER BY region), { 0 | -1 }) AS v FROM people GROUP BY region
SELECT region, SUM(COUNT(*)) OVER () AS v, COUNT(*) AS n FROM people GROUP BY region HAVING { COUNT(*) > 8000 | region LIKE '%th' }
SELECT region, COUNT(*) AS n FROM people GROUP BY region QUALIFY { RANK | ROW_NUMBER | DENSE_RANK }() OVER (ORDER BY { COUNT(*) DESC | region }) { <= 2 | = 1 | > 1 | IN (1, 3) | BETWEEN 2 AND 3 }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region QUALIFY { ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) = 1 | RANK() OVER (PARTITION BY region ORDER BY COUNT(*)) < 3 | COUNT(*) > AVG(COUNT(*)) OVER () | COUNT(*) = MAX(COUNT(*)) OVER (PARTITION BY sex) | SUM(COUNT(*)) OVER (PARTITION BY sex) > 10000 AND region < 'south' }
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY region QUALIFY r <= 2 ORDER BY { r | r DESC | n }
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM people GROUP BY region ORDER BY r { DESC | LIMIT 2 | LIMIT 2 OFFSET 1 }
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS v FROM people GROUP BY age ORDER BY { age | age DESC | v DESC } LIMIT 4
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age { NULLS FIRST | DESC | DESC NULLS FIRST | DESC NULLS LAST }) AS v FROM people GROUP BY age
SELECT MONTH(day) AS m, SUM(COUNT(*)) OVER (ORDER BY MONTH(day)) AS v FROM people GROUP BY m
SELECT day, SUM(COUNT(*)) OVER (PARTITION BY MONTH(day) ORDER BY day) AS v FROM people GROUP BY day
SELECT sex, region, AVG(SUM(score)) OVER (PARTITION BY region) AS v FROM people GROUP BY sex, region
SELECT region, SUM(COUNT(*)) FILTER (WHERE region <> 'west') OVER () AS v FROM people GROUP BY region -> is not supported
