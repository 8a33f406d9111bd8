-- Frames of windows, in every spelling and case.
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age { ROWS | rows } BETWEEN { 1 PRECEDING | 2 preceding | UNBOUNDED Preceding | unbounded preceding | CURRENT ROW | current row } AND { CURRENT ROW | current row | 1 FOLLOWING | 1 following | UNBOUNDED FOLLOWING | unbounded Following }) AS v FROM people GROUP BY age
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age { ROWS | rows } { 1 PRECEDING | 2 preceding | UNBOUNDED PRECEDING | unbounded preceding | CURRENT ROW | current row }) AS v FROM people GROUP BY age
SELECT age, { SUM | AVG | MIN | MAX | FIRST_VALUE | LAST_VALUE }(COUNT(*)) OVER (ORDER BY age ROWS BETWEEN { 3 PRECEDING AND 2 PRECEDING | 1 FOLLOWING AND 2 FOLLOWING | 2 PRECEDING AND 2 FOLLOWING | 2 FOLLOWING AND UNBOUNDED FOLLOWING }) AS v FROM people GROUP BY age
SELECT age, COUNT(*) OVER (ORDER BY age ROWS BETWEEN { 2 PRECEDING AND 1 PRECEDING | 1 PRECEDING AND 1 FOLLOWING | CURRENT ROW AND UNBOUNDED FOLLOWING }) AS v FROM people GROUP BY age
SELECT age // 2 AS k, age, SUM(COUNT(*)) OVER (ORDER BY age // 2 { RANGE | range } BETWEEN { UNBOUNDED PRECEDING AND CURRENT ROW | unbounded preceding and current row | UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING }) AS v FROM people GROUP BY k, age
SELECT age, SUM(COUNT(*)) OVER ({ RANGE | range } BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS v FROM people GROUP BY age
SELECT age, SUM(COUNT(*)) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS v FROM people GROUP BY age
SELECT sex, region, { SUM | MAX }(COUNT(*)) OVER (PARTITION BY sex ORDER BY region { ROWS | rows } 1 { PRECEDING | preceding }) AS v FROM people GROUP BY sex, region
SELECT region, LAST_VALUE({ COUNT(*) | region }) OVER (ORDER BY region ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS v FROM people GROUP BY region
select age, sum(count(*)) over (order by age rows between 1 preceding and current row) as v from people group by age order by age
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age { RANGE BETWEEN 1 PRECEDING AND CURRENT ROW | RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING | GROUPS CURRENT ROW | groups 1 preceding }) AS v FROM people GROUP BY age -> a frame other than ROWS
SELECT age, SUM(COUNT(*)) OVER (ORDER BY age ROWS { 1 + 1 | age | -1 } PRECEDING) AS v FROM people GROUP BY age -> is not supported
