-- Twenty statements over the ACS excerpt as an analyst writes them on a first day, one a line, each after its question.
-- How many people did each survey year reach?
SELECT YEAR, COUNT(*) AS people FROM acs GROUP BY YEAR ORDER BY YEAR
-- What do people of 25 and over earn?
SELECT AVG(PINCP) AS mean_income, MEDIAN(PINCP) AS median_income, COUNT(PINCP) AS earners FROM acs WHERE AGEP >= 25
-- Which five areas have most people?
SELECT PUMA, COUNT(*) AS people FROM acs GROUP BY PUMA ORDER BY people DESC LIMIT 5
-- What share of people lives in a home that the household owns, by year?
SELECT YEAR, ROUND(100.0 * COUNT(*) FILTER (WHERE OWN_RENT = 1) / COUNT(*), 1) AS owner_pct FROM acs GROUP BY YEAR ORDER BY YEAR
-- How many minors, adults and people of pension age are there?
SELECT CASE WHEN AGEP < 18 THEN 'minor' WHEN AGEP < 65 THEN 'adult' ELSE 'pension age' END AS age_band, COUNT(*) AS people FROM acs GROUP BY age_band ORDER BY people DESC
-- Which large areas earn most in working age?
SELECT PUMA, COUNT(*) AS people, MEDIAN(PINCP) AS median_income FROM acs WHERE AGEP BETWEEN 25 AND 64 GROUP BY PUMA HAVING COUNT(*) > 1500 ORDER BY median_income DESC
-- How far apart are the incomes of men and women with the same education?
SELECT EDU, AVG(PINCP) FILTER (WHERE SEX = 1) AS men, AVG(PINCP) FILTER (WHERE SEX = 2) AS women FROM acs WHERE EDU IS NOT NULL GROUP BY EDU ORDER BY EDU
-- What share of the people is of each race?
SELECT RAC1P, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 2) AS pct FROM acs GROUP BY RAC1P ORDER BY n DESC
-- Owners and renters among men and women, with the totals.
SELECT SEX, OWN_RENT, COUNT(*) AS people FROM acs GROUP BY ROLLUP (SEX, OWN_RENT) ORDER BY SEX, OWN_RENT
-- Which industries pay best?
WITH workers AS (SELECT * FROM acs WHERE INDP_CAT IS NOT NULL AND INDP_CAT <> 18) SELECT INDP_CAT, COUNT(*) AS n, AVG(PINCP) AS mean_income FROM workers GROUP BY INDP_CAT ORDER BY mean_income DESC LIMIT 5
-- How many people live in a family that is two adults and their own children?
SELECT COUNT(*) AS people FROM acs WHERE NPF = NOC + 2
-- How poor are the races?
SELECT RAC1P, AVG(CASE WHEN POVPIP < 100 THEN 1.0 ELSE 0 END) AS poverty_rate FROM acs WHERE POVPIP IS NOT NULL GROUP BY RAC1P ORDER BY poverty_rate DESC
-- Who is married, and for whom does the question not arise?
SELECT COALESCE(CAST(MSP AS VARCHAR), 'under 15') AS marital, COUNT(*) AS n FROM acs GROUP BY 1 ORDER BY 2 DESC
-- Rank the areas by income.
SELECT PUMA, AVG(PINCP) AS mean_income, RANK() OVER (ORDER BY AVG(PINCP) DESC) AS place FROM acs GROUP BY PUMA ORDER BY place
-- How many of the old see or hear badly, and how many cannot walk well?
SELECT SUM(CASE WHEN DEYE = 1 OR DEAR = 1 THEN 1 ELSE 0 END) AS senses, COUNT(*) FILTER (WHERE DPHY = 1) AS walking, COUNT(*) AS everyone FROM acs WHERE AGEP >= 65
-- What are the quartiles of income of women with a degree?
SELECT QUANTILE_CONT(PINCP, 0.25) AS p25, QUANTILE_CONT(PINCP, 0.5) AS p50, QUANTILE_CONT(PINCP, 0.75) AS p75 FROM acs WHERE SEX = 2 AND EDU >= 9
-- Which races grew between the two years?
SELECT RAC1P, COUNT(*) FILTER (WHERE YEAR = 2019) - COUNT(*) FILTER (WHERE YEAR = 2018) AS change FROM acs GROUP BY RAC1P ORDER BY change DESC
-- How many people are of each decade of age, and how many up to it?
SELECT AGEP // 10 * 10 AS decade, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY AGEP // 10 * 10) AS so_far FROM acs GROUP BY decade ORDER BY decade
-- Children and age in the country, the suburbs and the cities.
SELECT CASE WHEN DENSITY < 500 THEN 'country' WHEN DENSITY < 3000 THEN 'suburb' ELSE 'city' END AS place, COUNT(*) AS people, AVG(NOC) AS children, AVG(AGEP) AS age FROM acs WHERE HOUSING_TYPE = 1 GROUP BY place
-- Which states have more than one area's worth of people, and how many of them have no income at all?
SELECT LEFT(PUMA, 2) AS state, COUNT(*) AS people, SUM(CASE WHEN PINCP = 0 THEN 1 ELSE 0 END) AS no_income FROM acs WHERE AGEP >= 15 GROUP BY state HAVING COUNT(*) >= 3000 ORDER BY people DESC
