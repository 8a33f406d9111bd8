-- Joins of a lookup: a column of it is a function of the attribute.
SELECT COUNT(*) AS n FROM people p { JOIN | LEFT JOIN | INNER JOIN | LEFT OUTER JOIN } areas a USING (region) WHERE { a.name = 'Cold' | a.name <> 'Cold' | NOT a.name = 'Cold' | a.name IN ('Cold', 'Warm') | a.name NOT IN ('Cold', 'Warm') | a.name LIKE '%l%' | a.name NOT LIKE 'C%' }
SELECT COUNT(*) AS n FROM people p { JOIN | LEFT JOIN } areas a USING (region) WHERE { a.name IS NULL | a.capital IS NULL | NOT (a.capital = 'Nord' AND p.age = 1) | a.capital = 'Ost' OR a.name = 'Warm' | a.region = 'north' | capital = 'Nord' OR age > 3 | COALESCE(a.capital, 'none') = 'none' | CASE a.name WHEN 'Cold' THEN 2 ELSE age END = 2 | a.name = a.capital }
SELECT a.name, COUNT(*) AS n FROM people { JOIN | LEFT JOIN } areas a { USING (region) | ON people.region = a.region | ON (a.region = people.region) } GROUP BY a.name
SELECT a.capital AS c, AVG(age) AS v FROM people { JOIN | LEFT JOIN } areas a USING (region) GROUP BY { c | 1 | a.capital | ALL }
SELECT { COALESCE(a.capital, 'none') | CASE WHEN a.name LIKE '%d' THEN 'ends' ELSE a.capital END | UPPER(a.name) | a.name IS NULL } AS k, COUNT(*) AS n FROM people LEFT JOIN areas a USING (region) GROUP BY k
SELECT name, sex, COUNT(*) AS n FROM people f JOIN areas ON f.region = areas.region WHERE age > 0 GROUP BY name, sex
SELECT a.name AS x, b.capital AS y, COUNT(*) AS n FROM people LEFT JOIN areas a USING (region) JOIN areas b ON b.region = people.region GROUP BY x, y
SELECT name, UPPER(name) AS u, COUNT(*) AS n FROM people LEFT JOIN areas USING (region) GROUP BY name ORDER BY name { ASC | DESC }
SELECT COUNT(*) FILTER (WHERE a.name = 'Cold') AS c, SUM(CASE WHEN a.capital = 'Ost' THEN age ELSE 0 END) AS s FROM people LEFT JOIN areas a USING (region)
SELECT COUNT(*) FROM people { CROSS JOIN areas | NATURAL JOIN areas | RIGHT JOIN areas USING (region) | FULL OUTER JOIN areas USING (region) | ANTI JOIN areas USING (region) } -> JOIN
SELECT COUNT(*) FROM people { JOIN areas ON true | JOIN areas ON age > 1 | JOIN areas a ON a.name = people.region | JOIN areas a ON a.region = people.sex | JOIN areas a ON a.region <> people.region | JOIN areas USING (region, name) | , areas WHERE people.region = areas.region } -> anything but its key
SELECT COUNT(*) FROM people { JOIN area USING (region) | JOIN "AREAS" USING (region) | JOIN towns USING (region) } -> a join with
SELECT COUNT(*) FROM people JOIN (SELECT * FROM areas) a USING (region) -> a join with a sub-query
SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM areas WHERE name = 'Cold') -> a sub-query in IN
SELECT COUNT(*) FROM people a JOIN areas a USING (region) -> 'a' stands for two tables
SELECT COUNT(*) FROM people JOIN areas a USING (region) WHERE a.name = 'Hot' -> has the values 'Cold', 'Warm'
SELECT COUNT(*) FROM people JOIN areas a USING (region) WHERE a.nam = 'x' -> unknown_attribute: lookup 'areas' has the columns region, name, capital; got 'nam'; did you mean 'name'? @ a.nam
SELECT COUNT(*) FROM people JOIN areas a USING (region) WHERE a.name = 'Colt' -> did you mean 'Cold'? @ a.name
SELECT COUNT(*) FROM people JOIN areas a USING (region) WHERE areas.name = 'x' -> unsupported: a name with a dot @ areas.name
SELECT capital, COUNT(*) FROM people JOIN areas a USING (region) JOIN areas b ON b.region = people.region GROUP BY 1 -> 'capital' is a column of a and of b; write a.capital @ capital
SELECT score AS capital, COUNT(*) FROM people JOIN areas a USING (region) GROUP BY capital -> 'capital' is a title of the statement and a column of a; write a.capital
SELECT a.name, COUNT(*) FROM people JOIN areas a USING (region) -> syntax: 'name' stands outside of an aggregate @ a.name
SELECT AVG(a.name) FROM people JOIN areas a USING (region) -> wrong_kind: AVG needs numbers @ a.name
SELECT COUNT(*) FROM people f JOIN people g USING (region) -> unsupported: a join with 'people'
SELECT COUNT(*) FROM people JOIN areas ON region = region -> anything but its key
SELECT COUNT(*) FROM people f JOIN areas a ON a.region = f.region AND age = 1 -> anything but its key
