-- Statements in the spelling of tools that are not answered yet: see NOT_YET in test_statements.py.
-- Metabase
SELECT "public"."people"."region" AS "region", COUNT(*) AS "count" FROM "public"."people" GROUP BY "public"."people"."region" ORDER BY "public"."people"."region" { ASC | DESC } => SELECT region, COUNT(*) AS "count" FROM people GROUP BY region ORDER BY region { ASC | DESC }
SELECT COUNT(*) AS "count" FROM "public"."people" WHERE "public"."people"."{ sex" = 'f' | age" > 2 | region" <> 'west' | sex" IS NULL } => SELECT COUNT(*) AS "count" FROM people WHERE "{ sex" = 'f' | age" > 2 | region" <> 'west' | sex" IS NULL }
SELECT "public"."people"."sex" AS "sex", { AVG | SUM | MIN | MAX }("public"."people"."age") AS "v" FROM "public"."people" GROUP BY "public"."people"."sex" ORDER BY "public"."people"."sex" ASC => SELECT sex, { AVG | SUM | MIN | MAX }(age) AS v FROM people GROUP BY sex ORDER BY sex
SELECT FLOOR((("public"."people"."age" + 0.0) / { 2.0 | 3.0 })) * { 2.0 | 3.0 } AS "age", COUNT(*) AS "count" FROM "public"."people" GROUP BY FLOOR((("public"."people"."age" + 0.0) / { 2.0 | 3.0 })) * { 2.0 | 3.0 } ORDER BY FLOOR((("public"."people"."age" + 0.0) / { 2.0 | 3.0 })) * { 2.0 | 3.0 } ASC => SELECT FLOOR((age + 0.0) / { 2.0 | 3.0 }) * { 2.0 | 3.0 } AS age, COUNT(*) AS "count" FROM people GROUP BY 1 ORDER BY 1
SELECT "source"."region" AS "region", COUNT(*) AS "count" FROM (SELECT "public"."people"."region" AS "region", "public"."people"."age" AS "age" FROM "public"."people" WHERE "public"."people"."age" >= { 1 | 3 }) AS "source" GROUP BY "source"."region" ORDER BY "source"."region" ASC => SELECT region, COUNT(*) AS "count" FROM people WHERE age >= { 1 | 3 } GROUP BY region ORDER BY region
SELECT SUM(CASE WHEN "public"."people"."age" >= { 2 | 4 } THEN 1 ELSE 0.0 END) AS "count-where" FROM "public"."people" => SELECT SUM(CASE WHEN age >= { 2 | 4 } THEN 1 ELSE 0.0 END) AS "count-where" FROM people
SELECT CAST(SUM(CASE WHEN "public"."people"."sex" = '{ f | m }' THEN 1 ELSE 0.0 END) AS DOUBLE PRECISION) / NULLIF(COUNT(*), 0) AS "share" FROM "public"."people" => SELECT SUM(CASE WHEN sex = '{ f | m }' THEN 1 ELSE 0.0 END) / COUNT(*) AS share FROM people
SELECT "public"."people"."region" AS "region" FROM "public"."people" GROUP BY "public"."people"."region" ORDER BY "public"."people"."region" ASC LIMIT 1000 => SELECT region FROM people GROUP BY region ORDER BY region
SELECT DATE_TRUNC('{ month | week }', "public"."people"."day") AS "day", COUNT(*) AS "count" FROM "public"."people" GROUP BY DATE_TRUNC('{ month | week }', "public"."people"."day") ORDER BY DATE_TRUNC('{ month | week }', "public"."people"."day") ASC => SELECT DATE_TRUNC('{ month | week }', day) AS day, COUNT(*) AS "count" FROM people GROUP BY 1 ORDER BY 1
SELECT "source"."region" AS "region", COUNT(*) AS "count" FROM (SELECT "people"."region" AS "region", "people"."age" AS "age" FROM "people" WHERE "people"."age" >= 3) AS "source" GROUP BY "source"."region" ORDER BY "source"."region" ASC
-- Superset
SELECT region AS region, COUNT(*) AS count FROM public.people GROUP BY region ORDER BY count { DESC | ASC } LIMIT { 10000 | 2 } => SELECT region, COUNT(*) AS count FROM people GROUP BY region ORDER BY count { DESC | ASC } LIMIT { 10000 | 2 }
SELECT sex AS sex, AVG(score) AS "AVG(score)" FROM public.people WHERE region IN ('north', 'south') GROUP BY sex ORDER BY "AVG(score)" DESC LIMIT 10000 => SELECT sex, AVG(score) AS "AVG(score)" FROM people WHERE region IN ('north', 'south') GROUP BY sex ORDER BY 2 DESC
SELECT DISTINCT region AS region FROM public.people ORDER BY region LIMIT 1000 => SELECT DISTINCT region FROM people ORDER BY region
SELECT DATE_TRUNC('{ month | week | day }', day) AS __timestamp, SUM(score) AS v FROM public.people WHERE day >= '2020-12-29' AND day < '2021-01-03' GROUP BY DATE_TRUNC('{ month | week | day }', day) ORDER BY v DESC LIMIT 1000 => SELECT DATE_TRUNC('{ month | week | day }', day) AS __timestamp, SUM(score) AS v FROM people WHERE day >= '2020-12-29' AND day < '2021-01-03' GROUP BY 1 ORDER BY v DESC
-- Tableau
SELECT CAST("people"."region" AS TEXT) AS "region", SUM(1) AS "sum:Number of Records:ok" FROM "public"."people" "people" GROUP BY 1 => SELECT region, SUM(1) AS "sum:Number of Records:ok" FROM people GROUP BY 1
SELECT "people"."sex" AS "sex", COUNT(1) AS "cnt:n:ok" FROM "public"."people" "people" WHERE (("people"."age" >= 2) AND ("people"."age" <= 4)) GROUP BY 1 HAVING (COUNT(1) > { 0 | 5000 }) => SELECT sex, COUNT(*) AS "cnt:n:ok" FROM people WHERE age BETWEEN 2 AND 4 GROUP BY 1 HAVING COUNT(*) > { 0 | 5000 }
SELECT { AVG | SUM | MAX }("people"."score") AS "v" FROM "public"."people" "people" HAVING (COUNT(1) > 0) => SELECT { AVG | SUM | MAX }(score) AS v FROM people
SELECT "people"."region" AS "region", SUM(CASE WHEN ("people"."sex" = 'f') THEN 1 ELSE 0 END) AS "usr:c:ok" FROM "public"."people" "people" GROUP BY 1 => SELECT region, SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS "usr:c:ok" FROM people GROUP BY 1
-- Power BI
select "_"."region" as "c1", count(1) as "a0" from (select "age", "sex", "region" from "public"."people") "_" group by "_"."region" order by "_"."region" limit 1001 => SELECT region AS c1, COUNT(*) AS a0 FROM people GROUP BY 1 ORDER BY 1
select "_"."region" as "c1", { sum | avg | min | max }("_"."age") as "a0" from (select "age", "sex", "region" from "public"."people") "_" where "_"."sex" = '{ f | m }' group by "_"."region" => SELECT region AS c1, { sum | avg | min | max }(age) AS a0 FROM people WHERE sex = '{ f | m }' GROUP BY 1
select "rows"."sex" as "sex", count(*) as "c" from "public"."people" "rows" where "rows"."age" >= { 1 | 3 } group by "sex" => SELECT sex, COUNT(*) AS c FROM people WHERE age >= { 1 | 3 } GROUP BY 1
-- Grafana
SELECT DISTINCT({ region | sex | age }) FROM people
SELECT DISTINCT({ region | sex }) AS __text FROM people ORDER BY 1
SELECT day AS "time", COUNT(1) AS "value" FROM people GROUP BY 1 ORDER BY 1
-- dbplyr
SELECT "age_group", COUNT(*) AS "n"\nFROM (\n  SELECT "people".*, CASE WHEN ("age" < { 2.0 | 3.0 }) THEN 'young' WHEN ("age" >= { 2.0 | 3.0 }) THEN 'old' END AS "age_group"\n  FROM "people"\n) AS "q01"\nGROUP BY "age_group"
SELECT "k", AVG("score") AS "v"\nFROM (\n  SELECT "people".*, "age" % 2 AS "k"\n  FROM "people"\n) AS "q01"\nGROUP BY "k"
SELECT "region", "n", "n" / SUM("n") OVER () AS "share"\nFROM (\n  SELECT "region", COUNT(*) AS "n"\n  FROM "people"\n  GROUP BY "region"\n) AS "q01"
SELECT "region", COUNT(*) AS "n"\nFROM (\n  SELECT "people".*\n  FROM "people"\n  WHERE ("sex" = '{ f | m }')\n) AS "q01"\nGROUP BY "region"
SELECT "q01".*\nFROM (\n  SELECT "region", COUNT(*) AS "n"\n  FROM "people"\n  GROUP BY "region"\n) AS "q01"\nWHERE ("n" > { 7000.0 | 9000.0 })
-- ibis
SELECT "t0"."sex", AVG("t0"."age") AS "Mean(age)" FROM "people" AS "t0" WHERE "t0"."age" > CAST({ 1 | 3 } AS TINYINT) GROUP BY 1
SELECT "t1"."region", "t1"."n" FROM (SELECT "t0"."region", COUNT(*) AS "n" FROM "people" AS "t0" GROUP BY 1) AS "t1" ORDER BY "t1"."n" { ASC | DESC }
SELECT * FROM (SELECT "t0"."region", COUNT(*) AS "n", SUM("t0"."score") AS "s" FROM "people" AS "t0" GROUP BY 1) AS "t1" WHERE "t1"."n" > CAST({ 7000 | 9000 } AS SMALLINT)
SELECT "t1"."k", COUNT(*) AS "n" FROM (SELECT { "t0"."age" // 2 | UPPER("t0"."region") | "t0"."score" < 0 } AS "k" FROM "people" AS "t0") AS "t1" GROUP BY 1
-- SQLAlchemy
SELECT count(*) AS count_1 FROM (SELECT people.region AS region FROM people WHERE people.age > { 1 | 3 }) AS anon_1
SELECT anon_1.region, anon_1.n FROM (SELECT people.region AS region, count(*) AS n FROM people GROUP BY people.region) AS anon_1 ORDER BY anon_1.n
SELECT anon_1.k, count(*) AS count_1 FROM (SELECT CASE WHEN (people.age < { 2 | 4 }) THEN 'a' ELSE 'b' END AS k FROM people) AS anon_1 GROUP BY anon_1.k
-- dbt
select count(*) as failures from (select age from people where age is null) dbt_internal_test
select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error from (select age from people where age is null) dbt_internal_test
with all_values as (select sex as value_field, count(*) as n_records from people group by sex) select * from all_values where value_field not in ('f')
with all_values as (select region as value_field, count(*) as n_records from people group by region) select value_field, n_records from all_values where n_records > { 7000 | 9000 }
with src as (select age, sex, case when age >= 3 then 'old' else 'young' end as grp from people) select grp, count(*) as n from src group by grp
-- Looker
SELECT\n    people."region"  AS "people.region",\n    COUNT(*) AS "people.count"\nFROM "public"."people"  AS people\nGROUP BY\n    1\nORDER BY\n    2 DESC\nFETCH NEXT { 500 | 2 } ROWS ONLY => SELECT region AS "people.region", COUNT(*) AS "people.count" FROM people GROUP BY 1 ORDER BY 2 DESC LIMIT { 500 | 2 }
SELECT CASE WHEN people."age" < 2 THEN '0' WHEN people."age" >= 2 THEN '1' ELSE 'Undefined' END AS "people.age_tier", COUNT(*) AS "people.count" FROM public.people AS people GROUP BY 1 ORDER BY 1 FETCH NEXT 500 ROWS ONLY => SELECT CASE WHEN age < 2 THEN '0' WHEN age >= 2 THEN '1' ELSE 'Undefined' END AS "people.age_tier", COUNT(*) AS "people.count" FROM people GROUP BY 1 ORDER BY 1
SELECT people.sex AS "people.sex", COALESCE(SUM(people.score), 0) AS "people.total" FROM people GROUP BY 1 ORDER BY 2 DESC FETCH FIRST { 1 | 10 } ROWS ONLY => SELECT sex AS "people.sex", SUM(score) AS "people.total" FROM people GROUP BY 1 ORDER BY 2 DESC LIMIT { 1 | 10 }
-- Evidence
select region, count(1) as n, avg(score) as score from people group by all order by n desc
select region, n, n / total as share from (select region, count(*) as n, sum(count(*)) over () as total from people group by region)
-- assistants
SELECT 'f' AS k, COUNT(*) AS n FROM people WHERE sex = 'f' UNION ALL SELECT 'm', COUNT(*) FROM people WHERE sex = 'm'
SELECT region, COUNT(*) AS n FROM people WHERE age < 2 GROUP BY region UNION ALL SELECT 'all', COUNT(*) FROM people
SELECT COUNT(*) AS n FROM people WHERE age > (SELECT { AVG | MEDIAN | MIN }(age) FROM people)
SELECT region, COUNT(*) * 1.0 / (SELECT COUNT(*) FROM people) AS share FROM people GROUP BY region
WITH a AS (SELECT region, COUNT(*) AS n FROM people GROUP BY region), b AS (SELECT region, COUNT(*) AS m FROM people WHERE sex = '{ f | m }' GROUP BY region) SELECT a.region, n, m, 1.0 * m / n AS rate FROM a JOIN b ON a.region = b.region
WITH g AS (SELECT region, AVG(age) AS v FROM people GROUP BY region) SELECT { MAX(v) | MIN(v) } AS v FROM g
WITH g AS (SELECT region, COUNT(*) AS n FROM people GROUP BY region) SELECT region, n FROM g WHERE n > { 7000 | 9000 } ORDER BY n
SELECT region, n FROM (SELECT region, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rn FROM people GROUP BY region) WHERE rn <= { 1 | 2 }
