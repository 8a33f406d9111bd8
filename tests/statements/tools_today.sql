-- Statements in the spelling of tools, as far as they are answered today.
SELECT region AS region, COUNT(*) AS count FROM people GROUP BY region ORDER BY count DESC LIMIT { 10000 | 2 }
SELECT region AS region, COUNT(*) AS count FROM (SELECT * FROM people) AS virtual_table GROUP BY region ORDER BY count DESC LIMIT 1000
SELECT sex AS sex, AVG(score) AS "AVG(score)" FROM people WHERE region IN ('north', 'south') GROUP BY sex ORDER BY "AVG(score)" DESC LIMIT 10000
SELECT DISTINCT region AS region FROM people ORDER BY region LIMIT 1000
SELECT MIN(age) AS lo, MAX(age) AS hi FROM people
SELECT DATE_TRUNC('month', day) AS __timestamp, COUNT(*) AS count FROM people WHERE day >= '2020-12-29' AND day < '2021-01-03' GROUP BY DATE_TRUNC('month', day) ORDER BY __timestamp LIMIT 1000
SELECT "people"."region" AS "region", COUNT(*) AS "count" FROM "people" GROUP BY "people"."region" ORDER BY "people"."region" ASC
SELECT COUNT(*) AS "count" FROM "people" WHERE "people"."sex" = 'f'
SELECT FLOOR((("people"."age" + 0.0) / 2.0)) * 2.0 AS "age", COUNT(*) AS "count" FROM "people" GROUP BY FLOOR((("people"."age" + 0.0) / 2.0)) * 2.0 ORDER BY FLOOR((("people"."age" + 0.0) / 2.0)) * 2.0 ASC
SELECT SUM(CASE WHEN "people"."age" >= 4 THEN 1 ELSE 0.0 END) AS "count-where" FROM "people"
SELECT CAST(SUM(CASE WHEN "people"."sex" = 'm' THEN 1 ELSE 0.0 END) AS DOUBLE PRECISION) / NULLIF(COUNT(*), 0) AS "share" FROM "people"
SELECT DATE_TRUNC('{ week | month | year }', "people"."day") AS "day", AVG("people"."score") AS "avg" FROM "people" GROUP BY DATE_TRUNC('{ week | month | year }', "people"."day") ORDER BY DATE_TRUNC('{ week | month | year }', "people"."day") ASC
SELECT CAST("people"."region" AS TEXT) AS "region", SUM(1) AS "sum:Number of Records:ok" FROM "people" "people" GROUP BY 1
SELECT "people"."sex" AS "sex", COUNT(*) AS "cnt:n:ok" FROM "people" WHERE (("people"."age" >= 2) AND ("people"."age" <= 4)) GROUP BY 1 HAVING (COUNT(*) > 0)
SELECT age AS metric, count(*) AS value FROM people GROUP BY 1 ORDER BY 1
SELECT day AS "time", count(*) AS value FROM people WHERE day BETWEEN '2020-12-29' AND '2021-01-02' GROUP BY 1 ORDER BY 1
SELECT "region", COUNT(*) AS "n"\nFROM "people"\nGROUP BY "region"
SELECT "sex", AVG("age") AS "mean", COUNT(*) AS "n"\nFROM "people"\nWHERE ("age" >= 3.0)\nGROUP BY "sex"
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY "age") AS "m" FROM "people"
SELECT "t1"."region", COUNT(*) AS "CountStar()" FROM "people" AS "t1" GROUP BY 1
SELECT "t0"."sex", AVG("t0"."age") AS "Mean(age)" FROM "people" AS "t0" WHERE "t0"."age" > 3 GROUP BY 1
SELECT people.region, count(*) AS count_1 FROM people WHERE people.age >= 4 GROUP BY people.region
SELECT count(people.age) AS count_1, avg(people.age) AS avg_1 FROM people WHERE people.sex = 'm' AND people.age BETWEEN 2 AND 3
SELECT people.sex, sum(people.score) AS total FROM people GROUP BY people.sex HAVING count(*) > 10000 ORDER BY sum(people.score) DESC
select region, count(*) as n, avg(score) as score from people group by all order by n desc
SELECT\n    people."region"  AS "people.region",\n    COUNT(*) AS "people.count"\nFROM "people"  AS people\nGROUP BY\n    1\nORDER BY\n    2 DESC\nLIMIT 500
SELECT CASE WHEN people."age" < 2 THEN '0' WHEN people."age" >= 2 AND people."age" < 4 THEN '1' WHEN people."age" >= 4 THEN '2' ELSE 'Undefined' END AS "people.age_tier", COUNT(*) AS "people.count" FROM people AS people GROUP BY 1 ORDER BY 1 LIMIT 500
WITH seniors AS (SELECT * FROM people WHERE age >= 4) SELECT sex, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM seniors GROUP BY sex
SELECT CASE WHEN age < 3 THEN 'under 3' ELSE '3+' END AS grp, AVG(CASE WHEN sex = 'f' THEN 1.0 ELSE 0 END) AS rate FROM people GROUP BY 1
SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS rnk FROM people GROUP BY region ORDER BY rnk
SELECT region, AVG(age) AS avg_age, AVG(age) - AVG(AVG(age)) OVER () AS diff FROM people GROUP BY region ORDER BY diff DESC
