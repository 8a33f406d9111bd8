-- Twenty statements over census_income_kdd as an analyst writes them on a first day, one a line, each after its question.
-- How are the incomes split?
SELECT income, COUNT(*) AS n, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM census GROUP BY income
-- Which education pays, at 25 and over?
SELECT education, COUNT(*) AS n, AVG(CASE WHEN income = '50000+.' THEN 1.0 ELSE 0.0 END) AS high_share FROM census WHERE age >= 25 GROUP BY education ORDER BY high_share DESC LIMIT 5
-- How old are the single, the married and the widowed?
SELECT marital, ROUND(AVG(age), 1) AS mean_age, MEDIAN(age) AS median_age FROM census GROUP BY marital ORDER BY mean_age
-- Did men and women of working age work longer in the second year?
SELECT year, sex, AVG(weeks_worked) AS weeks FROM census WHERE age BETWEEN 20 AND 64 GROUP BY year, sex ORDER BY year, sex
-- How many people of each stage of life are there, and how many of them have capital gains?
SELECT CASE WHEN age < 15 THEN 'child' WHEN age < 30 THEN 'young' WHEN age < 65 THEN 'middle' ELSE 'old' END AS stage, COUNT(*) AS n, COUNT(*) FILTER (WHERE capital_gains > 0) AS gains FROM census GROUP BY stage ORDER BY n DESC
-- Which industries employ more than 5,000?
SELECT major_industry, COUNT(*) AS workers FROM census WHERE major_industry <> 'Not in universe or children' GROUP BY major_industry HAVING COUNT(*) > 5000 ORDER BY workers DESC
-- Race by sex with the totals named.
SELECT COALESCE(race, 'all races') AS race_group, COALESCE(sex, 'both') AS sex_group, COUNT(*) AS n FROM census GROUP BY ROLLUP (race, sex)
-- Citizenship, sex and the total in one table.
SELECT citizenship, sex, COUNT(*) AS n FROM census GROUP BY GROUPING SETS ((citizenship), (sex), ())
-- How many people have more from dividends than from capital gains?
SELECT COUNT(*) AS n FROM census WHERE dividends > capital_gains
-- Do men who work all year earn well more often than women who do?
WITH full_year AS (SELECT * FROM census WHERE work_status = 'Full-time schedules' AND weeks_worked >= 50) SELECT sex, COUNT(*) AS n, 100.0 * SUM(CASE WHEN income = '50000+.' THEN 1 ELSE 0 END) / COUNT(*) AS high_pct FROM full_year GROUP BY sex ORDER BY sex
-- How many women have a degree?
SELECT COUNT(*) AS n FROM census WHERE sex = 'Female' AND education ILIKE '%degree%' AND education NOT ILIKE '%no degree%'
-- Where are the unions strong?
SELECT major_industry, 100.0 * COUNT(*) FILTER (WHERE "union" = 'Yes') / NULLIF(COUNT(*) FILTER (WHERE "union" <> 'Not in universe'), 0) AS member_pct FROM census GROUP BY major_industry ORDER BY member_pct DESC NULLS LAST LIMIT 10
-- The three most frequent occupations of each sex.
SELECT sex, major_occupation, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) AS place FROM census WHERE major_occupation <> 'Not in universe' GROUP BY sex, major_occupation QUALIFY place <= 3 ORDER BY sex, place
-- What dividends do those receive who receive any?
SELECT COUNT(*) AS n, AVG(dividends) AS mean_dividends, MEDIAN(dividends) AS median_dividends FROM census WHERE dividends > 0
-- Where were people of each year born?
SELECT citizenship, SUM(CASE WHEN year = 94 THEN 1 ELSE 0 END) AS y94, SUM(CASE WHEN year = 95 THEN 1 ELSE 0 END) AS y95 FROM census GROUP BY citizenship ORDER BY y95 DESC
-- At which age is unemployment high?
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS labour_force, 1.0 * COUNT(*) FILTER (WHERE work_status LIKE 'Unemployed%') / COUNT(*) AS unemployed FROM census WHERE work_status NOT IN ('Children or Armed Forces', 'Not in labor force') GROUP BY decade ORDER BY decade
-- How do householders and their spouses file?
SELECT household_summary, tax_filer, COUNT(*) AS n FROM census WHERE household_summary IN ('Householder', 'Spouse of householder') GROUP BY household_summary, tax_filer ORDER BY n DESC LIMIT 10
-- How many people work for employers up to each size?
SELECT num_employer, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY num_employer) * 100.0 / SUM(COUNT(*)) OVER () AS cumulative_pct FROM census GROUP BY num_employer ORDER BY num_employer
-- Which race earns well more often, worked out from two columns?
WITH by_race AS (SELECT race, COUNT(*) AS n, COUNT(*) FILTER (WHERE income = '50000+.') AS high FROM census GROUP BY race) SELECT race, n, 100.0 * high / n AS pct FROM by_race ORDER BY pct DESC
-- Origin, with the unknown put together, and the spread of age.
SELECT COALESCE(NULLIF(hispanic, 'NA'), 'Do not know') AS origin, COUNT(*) AS n, AVG(age) AS mean_age, STDDEV(age) AS spread FROM census GROUP BY origin ORDER BY n DESC
