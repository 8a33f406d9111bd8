-- Parts of dates: each spelling means what DuckDB means. Days are of two months, weeks and years.
SELECT { YEAR(day) | EXTRACT(year FROM day) | QUARTER(day) | date_part('quarter', day) | EXTRACT(MONTH FROM day) | DATE_PART('months', day) | MONTH(day) | DAY(day) | DAYOFMONTH(day) | DAYOFWEEK(day) | WEEKDAY(day) } AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT { EXTRACT(dow FROM day) | ISODOW(day) | date_part('isodow', day) | DAYOFYEAR(day) | EXTRACT(doy FROM day) | WEEK(day) | WEEKOFYEAR(day) | EXTRACT(isoyear FROM day) | YEARWEEK(day) | DAYNAME(day) | MONTHNAME(day) } AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT DATE_TRUNC('{ year | quarter | MONTH | week | day }', day) AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT { CAST(day AS DATE) | day::date | DATE(day) } AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT { day + INTERVAL 40 DAY | day - INTERVAL 1 WEEK | DATE_TRUNC('week', day + INTERVAL 1 DAY) - INTERVAL 1 DAY | DATE_TRUNC('month', day) + INTERVAL 1 MONTH - INTERVAL 1 DAY } AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT { MONTH(day - INTERVAL '2 weeks') | MONTH(DATE_TRUNC('quarter', day)) | DAYNAME(day + INTERVAL 3 DAY) } AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT strftime(day, '{ %Y-%m | %d.%m.%y | %G-W%V | %a %-d %b, 100%% | %j/%-j/%u/%w/%-m | %A, %d %B }') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT strftime('%Y', day) AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT TO_CHAR(day, 'YYYY-MM') AS k, COUNT(*) AS n FROM people GROUP BY 1 => SELECT strftime(day, '%Y-%m') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT TO_CHAR(day, 'FMDay, DD Mon YY') AS k, COUNT(*) AS n FROM people GROUP BY 1 => SELECT strftime(day, '%A, %d %b %y') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT TO_CHAR(day, 'IYYY-IW-ID') AS k, COUNT(*) AS n FROM people GROUP BY 1 => SELECT strftime(day, '%G-%V-%u') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT DATE_FORMAT(day, '%M %e, %Y') AS k, COUNT(*) AS n FROM people GROUP BY 1 => SELECT strftime(day, '%B %-d, %Y') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT COUNT(*) AS n FROM people WHERE { DATE_TRUNC('month', day) = DATE '2021-01-01' | DATE '2020-12-15' < DATE_TRUNC('month', day) | DATE_TRUNC('week', day) <> '2020-12-28' | DATE_TRUNC('year', day) BETWEEN '2019-06-01' AND DATE '2020-01-01' }
SELECT COUNT(*) AS n FROM people WHERE DATE_TRUNC('quarter', day) IN ('2020-10-01', TIMESTAMP '2020-07-01 00:00:00')
SELECT COUNT(*) AS n FROM people WHERE { EXTRACT(dow FROM day) IN (0, 6) | NOT ISODOW(day) >= 6 | WEEK(day) = 1 | EXTRACT(doy FROM day) < 32 | DAYNAME(day) = 'Sunday' | strftime(day, '%Y-%m') >= '2021-01' | YEAR(day) = 2021 AND MONTH(day) = 1 }
SELECT COUNT(*) AS n FROM people WHERE day { = | <> | < | <= | > | >= } { '2021-01-01' | DATE '2020-12-30' | CAST('2021-01-02' AS DATE) }
SELECT COUNT(*) AS n FROM people WHERE day { BETWEEN | NOT BETWEEN } '2020-12-30' AND '2021-01-02'
SELECT COUNT(*) AS n FROM people WHERE { day::timestamp >= CAST('2021-01-01' AS TIMESTAMP) | DATE('2021-01-01') >= CAST(day AS DATETIME) | day::date = DATE '2021-01-01' | CAST(day AS DATE) > DATE '2020-12-30' + 1 | day >= DATE '2020-11-30' + INTERVAL 1 MONTH | day < DATE '2021-02-03' - INTERVAL '1 month 2 days' }
SELECT COUNT(*) AS n FROM people WHERE { day + INTERVAL 1 DAY > DATE '2020-12-31' | DATE '2020-12-20' = day - INTERVAL 2 WEEKS | day BETWEEN DATE '2020-12-01' AND DATE '2020-12-01' + INTERVAL 1 MONTH - INTERVAL 1 DAY | MONTH(day) = MONTH(DATE '2021-01-31' - INTERVAL 1 MONTH) }
SELECT DATE_TRUNC('month', day)::date AS m, COUNT(*) AS n FROM people GROUP BY DATE_TRUNC('month', day) HAVING m >= DATE '2021-01-01' => SELECT DATE_TRUNC('month', day)::date AS m, COUNT(*) AS n FROM people WHERE day >= '2021-01-01' GROUP BY 1
SELECT DATE_TRUNC('month', day) AS m, DAYNAME(day) AS w, COUNT(*) AS n FROM people GROUP BY 1, 2 ORDER BY 1, 2
SELECT { AVG(ISODOW(day)) | SUM(CASE WHEN MONTHNAME(day) = 'January' THEN 1 ELSE 0 END) | COUNT(*) FILTER (WHERE day >= '2021-01-01') | MAX(DAY(day)) | MEDIAN(ISODOW(day)) } AS v FROM people
SELECT MONTH(day) // 6 AS k, COUNT(*) AS n FROM people GROUP BY k
SELECT EXTRACT(month FROM people.day) AS m, strftime(DAY, '%m') AS s, COUNT(*) AS n FROM people GROUP BY MONTH(day), TO_CHAR(day, 'MM') ORDER BY date_part('month', day) DESC => SELECT MONTH(day) AS m, strftime(day, '%m') AS s, COUNT(*) AS n FROM people GROUP BY ALL ORDER BY 1 DESC
SELECT strftime(day, '%F') AS k, COUNT(*) AS n FROM people GROUP BY 1 => SELECT strftime(day, '%Y-%m-%d') AS k, COUNT(*) AS n FROM people GROUP BY 1
SELECT COUNT(*) AS n FROM people WHERE day + INTERVAL 1 MONTH > '2020-01-01'
SELECT TRIM(sex) AS k, COUNT(*) AS n FROM people GROUP BY 1
