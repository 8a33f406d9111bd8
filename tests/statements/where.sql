-- Conditions on records: what they keep, wherever they stand.
SELECT COUNT(*) AS n FROM people
select count ( * ) as n from PEOPLE;
SELECT COUNT(*) AS n FROM people AS p WHERE p.age >= 4
/* all */ SELECT COUNT(*) AS n FROM people WHERE NOT (age < 2 OR age > 4) -- of some ages
SELECT COUNT(*) AS n FROM people WHERE age { = | <> | <= | >= } { 0 | 2 | 5 }
SELECT COUNT(*) AS n FROM people WHERE age { < | > } { 1 | 2 | 4 }
SELECT COUNT(*) AS n FROM people WHERE score { = | <> | <= | > | >= } { -3 | -1 | 0 }
SELECT COUNT(*) AS n FROM people WHERE 2 { = | < | >= } age
SELECT COUNT(*) AS n FROM people WHERE age { BETWEEN | NOT BETWEEN } { 1 AND 3 | 0 AND 5 | 4 AND 4 }
SELECT COUNT(*) AS n FROM people WHERE age { IN | NOT IN } { (1) | (0, 2, 4) | (1, NULL) }
SELECT COUNT(*) AS n FROM people WHERE { age | sex } IS { NULL | NOT NULL }
SELECT COUNT(*) AS n FROM people WHERE NOT sex IS NULL
SELECT COUNT(*) AS n FROM people WHERE sex { = | <> } { 'f' | 'm' }
SELECT COUNT(*) AS n FROM people WHERE NOT (sex = 'f' { AND | OR } age > 3)
SELECT COUNT(*) AS n FROM people WHERE sex = 'f' { AND | OR } region = 'north' { AND | OR } age = 1
SELECT COUNT(*) AS n FROM people WHERE region { LIKE | NOT LIKE | ILIKE } { '%th' | 'N%' | '_ast' | '%' }
SELECT COUNT(*) AS n FROM people WHERE { LOWER(region) | UPPER(region) | LEFT(region, 1) | SUBSTRING(region, 2, 2) } IN ('north', 'NORTH', 'n', 'es')
SELECT COUNT(*) AS n FROM people WHERE { LENGTH(region) > 4 | starts_with(region, 's') | region || '-' = 'east-' | COALESCE(sex, 'none') = 'none' }
SELECT COUNT(*) AS n FROM people WHERE { age > score | age = score | age - score >= 4 | age * score < -4 | -score > age | age % 2 = 1 | ABS(score) = 2 | age // 2 = 1 }
SELECT COUNT(*) AS n FROM people WHERE { GREATEST(age, score) = 2 | LEAST(age, score) = 2 | COALESCE(age, 3) = 3 | NULLIF(age, 3) IS NULL | age + 0.5 > 3 | age * 0.5 >= 2 }
SELECT COUNT(*) AS n FROM people WHERE { age IS DISTINCT FROM 2 | age IS NOT DISTINCT FROM NULL | (age > 2) IS TRUE | (age > 2) IS NOT TRUE | (age > 2) IS FALSE | (sex = 'f') IS NULL }
SELECT COUNT(*) AS n FROM people WHERE CASE WHEN age < 2 THEN sex = 'f' WHEN age > 4 THEN FALSE ELSE region = 'west' END
SELECT COUNT(*) AS n FROM people WHERE CASE sex WHEN 'f' THEN 1 WHEN 'm' THEN 2 END { = 1 | <> 1 | IS NULL }
SELECT COUNT(*) AS n FROM people WHERE member = { TRUE | FALSE }
SELECT COUNT(*) AS n FROM people WHERE member { <> TRUE | IN (TRUE) }
SELECT COUNT(*) AS n FROM people WHERE { TRUE | 1 = 1 }
SELECT COUNT(*) AS n FROM people WHERE { age > 4 | sex = 'm' } AND { TRUE | 1 < 2 }
SELECT COUNT(*) AS n FROM people WHERE (sex, age) IN (('f', 1), ('m', 3))
SELECT COUNT(*) AS n FROM people WHERE pay { < 10 | >= 10 | > 3 | = 7 | BETWEEN 4 AND 12 }
SELECT COUNT(*) AS n FROM people WHERE pay { < 10 | > 12 } AND { age = 2 | region = 'west' AND sex IS NULL }
SELECT COUNT(*) AS n FROM people WHERE { pay > age * 3 | pay + score > 9 | FLOOR(pay) = 7 | NOT pay < 10 }
SELECT COUNT(*) AS n FROM (SELECT * FROM people WHERE age > 3) t WHERE t.sex = 'f'
SELECT COUNT(*) AS n FROM (SELECT age, sex FROM people p WHERE p.age > 3) WHERE sex = 'f'
SELECT COUNT(*) AS n FROM people AS p WHERE p.AGE + 5 > 9
WITH t AS (SELECT * FROM people WHERE age > 3), u AS (SELECT * FROM t WHERE sex = 'f') SELECT COUNT(age) AS n FROM u
WITH t AS (SELECT sex, age FROM people WHERE region = 'west') SELECT sex, AVG(age) AS v FROM t WHERE age > 1 GROUP BY sex
-- IS binds less than a comparison does.
SELECT COUNT(*) AS n FROM people WHERE age > 2 IS { TRUE | NOT TRUE | FALSE | NULL | NOT NULL | DISTINCT FROM TRUE | NOT DISTINCT FROM NULL }
SELECT COUNT(*) AS n FROM people WHERE { NOT sex = 'f' IS TRUE | age = 1 IS NULL OR sex = 'm' | age + 1 IS NULL | (age > 2) = (score > 0) | age IS NULL AND sex IS NULL | -age IS NULL | age BETWEEN 1 AND 3 IS TRUE | region LIKE 'n%' IS NOT TRUE | age IN (1, 2) IS NULL }
SELECT COUNT(*) AS n FROM people WHERE { (age IS NULL) = (sex IS NULL) | (age IS NULL) <> TRUE | (sex IS NULL) = TRUE }
SELECT COUNT(*) AS n FROM people WHERE { member | NOT member | member AND age > 2 | sex = 'f' OR member }
SELECT COUNT(*) FILTER (WHERE member) AS n FROM people
SELECT AVG(CASE WHEN member THEN 1.0 ELSE 0 END) AS v FROM people
