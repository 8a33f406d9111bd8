-- HAVING: every comparison of answers and keys.
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING { COUNT(*) | n } { = | <> | != | < | <= | > | >= } { 8223 | 10053 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING 9000 { < | > } { COUNT(*) | n }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) { BETWEEN | NOT BETWEEN } { 8223 AND 10053 | 0 AND 8222 | 10054 AND 20000 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING COUNT(*) { IN | NOT IN } { (8223, 10053) | (1) }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING { AVG(age) > 2 | SUM(score) < -8000 | MIN(score) = -3 | MEDIAN(age) >= 2 | COUNT(*) > SUM(age) / 2 | AVG(score) < -0.8 AND COUNT(*) > 10500 | COUNT(*) > 10000 OR AVG(age) > 2.05 }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING NOT { COUNT(*) > 9000 | (COUNT(*) > 9000 AND COUNT(*) < 10100) | (COUNT(*) > 10500 OR region = 'east') | COUNT(*) IN (8223) | region LIKE '%th' }
SELECT region, COUNT(*) AS n FROM people GROUP BY region HAVING { region = 'south' | region <> 'south' | region < 'south' | region >= 'south' | region IN ('east', 'west') | region LIKE '%th' | region NOT LIKE '%th' | region BETWEEN 'f' AND 'p' | LENGTH(region) = 5 | UPPER(region) = 'WEST' }
SELECT age, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY age HAVING { SUM(age) IS NULL | SUM(age) IS NOT NULL | age IS NULL | NOT age IS NULL | AVG(age) > 3 | NOT AVG(age) > 3 | s > 0 | COALESCE(SUM(age), 0) = 0 | NULLIF(SUM(age), 0) IS NULL }
SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING { age = 2 | age > 2 | age <> 2 | age IN (1, 3) | age NOT IN (1, 3) | age BETWEEN 1 AND 3 | age > 2 AND COUNT(*) > 4000 | age % 2 = 0 | age IS NULL OR age = 0 | age + 1 > 3 }
SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING { age > 2 IS TRUE | (age > 2) IS NOT TRUE | age > 2 IS NOT TRUE | 1 = 1 }
SELECT sex, region, COUNT(*) AS n FROM people GROUP BY sex, region HAVING { sex = 'f' AND COUNT(*) > 3000 | sex IS NULL OR n < 2000 | COUNT(*) > 2500 AND NOT (region = 'west' OR sex = 'f') | sex <> 'f' | NOT sex = 'f' | sex > region }
SELECT COUNT(*) AS n FROM people HAVING COUNT(*) { > | < } 5
SELECT COUNT(*) AS n FROM people HAVING AVG(age) { > | < } 1
SELECT day, COUNT(*) AS n FROM people GROUP BY day HAVING { day >= '2021-01-01' | day = DATE '2020-12-30' | day BETWEEN '2020-12-30' AND '2021-01-02' | MONTH(day) = 1 | day > '2020-12-30' AND COUNT(*) < 3000 }
SELECT member, COUNT(*) AS n FROM people GROUP BY member HAVING member = { TRUE | FALSE }
SELECT region, COUNT(*) AS n, AVG(age) AS v FROM people GROUP BY region HAVING { v > 2 | n > 9000 | v * n > 19000 | ROUND(v) = 2 | ABS(v - 2) < 0.07 | -n < -9000 | n / 2 > 5000 }
