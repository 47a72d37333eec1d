-- Statements that users of PostgreSQL and DuckDB type on their first day, in one session.
-- A statement below "refused:" fails with a message that contains the words; the others run.

CREATE OR REPLACE TABLE emp (
    id INTEGER, name VARCHAR, dept VARCHAR, sal DOUBLE, hired DATE, seen TIMESTAMP
);
INSERT INTO emp VALUES
    (1, 'ann', 'x', 10, '2020-01-01', '2024-01-01'), (2, 'bob', 'x', 20, '2020-06-01', NULL),
    (3, 'cid', 'y', 30, '2021-01-01', '2024-01-03'), (4, 'dan', 'y', 40, '2021-02-01', NULL),
    (5, 'eve', NULL, NULL, NULL, NULL), (6, 'fay', 'z', 60, '2022-01-01', '2024-01-06');

-- Definitions.

-- refused: no index enforces it
CREATE TABLE t1 (id INTEGER PRIMARY KEY, v TEXT);
CREATE TABLE t2 (id INTEGER, v TEXT DEFAULT 'x');
CREATE TABLE t3 (id INTEGER CHECK (id > 0));
-- refused: no index enforces it
CREATE TABLE t3b (id INTEGER UNIQUE);
CREATE TABLE t4 (id INTEGER, u UUID, j JSON, b BLOB, ti TIME, i INTERVAL);
CREATE TABLE t4b (u UUID);
CREATE TABLE t4c (j JSON);
CREATE TABLE t4d (b BLOB, ti TIME, iv INTERVAL);
CREATE TABLE t5 (a INTEGER[], s STRUCT(x INTEGER, y VARCHAR), m MAP(VARCHAR, INTEGER));
CREATE TABLE t5b (a INTEGER[]);
CREATE TABLE t5c (s STRUCT<x INT, y VARCHAR>);
CREATE TABLE t6 (h HUGEINT);
CREATE TABLE t7 (id SERIAL);
CREATE TEMP TABLE t8 (id INT);
DROP TABLE t8;
CREATE TEMPORARY TABLE t8 AS SELECT 1 AS a;
CREATE OR REPLACE TABLE t9 AS SELECT 1 AS a;
CREATE TABLE t10 (LIKE emp);
CREATE TABLE t11 AS FROM emp;
CREATE TYPE mood AS ENUM ('sad','ok');
CREATE SEQUENCE sq START 1;
ALTER TABLE emp ADD COLUMN note VARCHAR;
ALTER TABLE emp DROP COLUMN note;
ALTER TABLE emp RENAME TO emp2;
CREATE OR REPLACE TABLE emp (
    id INTEGER, name VARCHAR, dept VARCHAR, sal DOUBLE, hired DATE, seen TIMESTAMP
);
INSERT INTO emp VALUES
    (1, 'ann', 'x', 10, '2020-01-01', '2024-01-01'), (2, 'bob', 'x', 20, '2020-06-01', NULL),
    (3, 'cid', 'y', 30, '2021-01-01', '2024-01-03'), (4, 'dan', 'y', 40, '2021-02-01', NULL),
    (5, 'eve', NULL, NULL, NULL, NULL), (6, 'fay', 'z', 60, '2022-01-01', '2024-01-06');

ALTER TABLE emp RENAME COLUMN name TO nm;
ALTER TABLE emp ALTER COLUMN id TYPE BIGINT;
CREATE OR REPLACE TABLE emp (
    id INTEGER, name VARCHAR, dept VARCHAR, sal DOUBLE, hired DATE, seen TIMESTAMP
);
INSERT INTO emp VALUES
    (1, 'ann', 'x', 10, '2020-01-01', '2024-01-01'), (2, 'bob', 'x', 20, '2020-06-01', NULL),
    (3, 'cid', 'y', 30, '2021-01-01', '2024-01-03'), (4, 'dan', 'y', 40, '2021-02-01', NULL),
    (5, 'eve', NULL, NULL, NULL, NULL), (6, 'fay', 'z', 60, '2022-01-01', '2024-01-06');

-- refused: CREATE INDEX is not possible; leave it out
CREATE INDEX ix ON emp (id);
CREATE VIEW v1 AS SELECT id, name FROM emp;
CREATE OR REPLACE VIEW v1 AS SELECT id FROM emp;
DROP VIEW IF EXISTS v1;
CREATE SCHEMA s1;
CREATE TABLE s1.t (a INT);
USE s1;
SET search_path = 's1';
SET schema = 's1';
SET search_path = 'public';
CREATE MACRO add1(x) AS x + 1;
DROP MACRO add1;
CREATE FUNCTION add1(x INT) RETURNS INT RETURN x + 1;
COMMENT ON TABLE emp IS 'people';
DROP TABLE IF EXISTS nope;
TRUNCATE TABLE t9;
-- refused: ATTACH
ATTACH 'other.db' AS o;

-- Changes.

INSERT INTO emp (id, name) VALUES (9, 'zoe');
INSERT INTO emp VALUES (9, 'zoe', 'x', 1.0, '2020-01-01', NOW()) RETURNING id;
-- refused: there are no unique indexes
INSERT INTO emp (id,name) VALUES (9,'zoe') ON CONFLICT DO NOTHING;
-- refused: there are no unique indexes
INSERT OR REPLACE INTO emp (id,name) VALUES (9,'zoe');
INSERT INTO emp BY NAME SELECT 5 AS id, 'eva' AS name;
INSERT INTO emp (id) VALUES (DEFAULT);
UPDATE emp SET sal = sal * 1.1 WHERE dept = 'x';
UPDATE emp SET sal = e.s FROM (SELECT 1 AS id, 5.0 AS s) e WHERE emp.id = e.id;
UPDATE emp SET sal = (SELECT max(sal) FROM emp);
DELETE FROM emp WHERE id IN (SELECT 9);
DELETE FROM emp USING (SELECT 9 AS k) d WHERE emp.id = d.k;
DELETE FROM emp WHERE id = 9;
MERGE INTO emp USING (SELECT 1 AS id) s ON emp.id = s.id WHEN MATCHED THEN UPDATE SET name = 'm';
BEGIN;
ROLLBACK;
BEGIN TRANSACTION;
COMMIT;
BEGIN;
ROLLBACK;

-- Files.

SELECT * FROM 'a.csv';
SELECT count(*) FROM '[ab].csv';
SELECT * FROM '[ab].csv';
SELECT * FROM read_csv('a.csv');
SELECT * FROM read_csv_auto('a.csv');
SELECT * FROM read_csv('semi.csv', delim=';', header=true);
SELECT * FROM 'semi.csv';
SELECT * FROM 'nohead.csv';
SELECT * FROM 't.tsv';
COPY (SELECT 1 AS id, 'ann' AS name) TO 'z.csv.gz';
SELECT * FROM 'z.csv.gz';
SELECT id, tags, o FROM 'a.json';
SELECT id, tags[1], o['k'] FROM 'a.json';
SELECT o.k FROM 'a.json';
SELECT * FROM 'arr.json';
SELECT * FROM 'a.ndjson';
SELECT * FROM read_json('a.json');
COPY emp TO 'p.parquet';
SELECT * FROM read_parquet('p.parquet');
SELECT * FROM 'p.parquet';
SELECT * FROM parquet_metadata('p.parquet');
SELECT *, filename FROM read_csv('[ab].csv', filename=true);
SELECT * FROM 'hive/**/*.csv';
SELECT * FROM 'hive/';
CREATE EXTERNAL TABLE hx STORED AS CSV PARTITIONED BY (year) LOCATION 'hive/' OPTIONS
    ('has_header' 'true');
COPY emp TO 'emp.csv';
COPY emp TO 'emp2.csv' (HEADER, DELIMITER '|');
COPY emp TO 'emp.json';
COPY emp TO 'emp.parquet' (FORMAT PARQUET, COMPRESSION ZSTD);
COPY emp FROM 'emp.csv';
COPY (SELECT * FROM emp) TO 'out_dir' STORED AS PARQUET PARTITIONED BY (dept);
COPY emp TO STDOUT;
-- refused: say (FORMAT parquet)
EXPORT DATABASE 'exp';
EXPORT DATABASE 'exp' (FORMAT parquet);

-- Functions.

SELECT date_trunc('month', DATE '2024-02-15'), date_part('year', DATE '2024-02-15'), extract(dow
    FROM DATE '2024-02-15');
SELECT DATE '2024-01-31' + INTERVAL '1 month', DATE '2024-03-01' - DATE '2024-02-01', now() -
    INTERVAL '1 day' < now();
SELECT date_diff('day', DATE '2024-01-01', DATE '2024-02-01');
SELECT datediff('day', DATE '2024-01-01', DATE '2024-02-01');
SELECT age(TIMESTAMP '2024-01-01', TIMESTAMP '2023-01-01');
SELECT strftime(DATE '2024-01-01', '%Y/%m');
-- refused: strftime takes formats
SELECT to_char(DATE '2024-01-01', '%Y/%m'), strptime('2024/01','%Y/%m');
SELECT make_date(2024,1,2), last_day(DATE '2024-02-01'), monthname(DATE '2024-02-01');
SELECT current_date, current_timestamp, today();
SELECT epoch_ms(1700000000000), to_timestamp(1700000000);
SELECT TIMESTAMPTZ '2024-01-01 00:00:00+02' AT TIME ZONE 'Europe/Berlin';
SELECT generate_series FROM generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day');
SELECT * FROM range(3);
SELECT unnest([1,2,3]);
SELECT list_transform([1,2,3], x -> x + 1);
SELECT [x + 1 FOR x IN [1,2,3]];
SELECT list_aggregate([1,2,3],'sum'), list_sum([1,2,3]);
SELECT array_length([1,2,3]), list_contains([1,2],2), array_to_string([1,2],','),
    list_sort([3,1]);
SELECT [1,2,3][1], [1,2,3][-1], [1,2,3][1:2];
SELECT {'a': 1, 'b': 'x'} AS s, struct_pack(a := 1);
SELECT s.a FROM (SELECT {'a': 1} AS s);
SELECT s.* FROM (SELECT {'a': 1} AS s);
SELECT MAP {'a': 1}['a'], map_keys(MAP {'a': 1});
SELECT json_extract('{"a": 1}', '$.a');
SELECT '{"a": 1}'::JSON -> 'a';
SELECT '{"a": 1}' ->> 'a';
SELECT to_json({'a':1});
SELECT regexp_matches('abc','b'), regexp_replace('abc','b','x'), 'abc' ~ 'b',
    regexp_extract('abc','(b)');
SELECT 'abc' ILIKE 'A%', 'abc' SIMILAR TO 'a.*', 'x' || 1, upper('a'), split_part('a-b','-',2),
    string_split('a-b','-');
SELECT lpad('a',3,'x'), printf('%d', 3), format('{}', 3);
SELECT md5('x'), sha256('x'), hash(1);
SELECT uuid(), gen_random_uuid(), random();
SELECT 5 / 2, 5 // 2, 5 % 2, 2 ** 3, 2 ^ 3;
-- refused: out of range for type double precision
SELECT 1e400::DOUBLE;
-- refused: division by zero
SELECT 'NaN'::DOUBLE, 1/0;
-- refused: Cannot cast string 'x'
SELECT TRY_CAST('x' AS INT), 'x'::INT;
SELECT CAST('12' AS INT), '3'::INT, 3::VARCHAR, DATE '2024-01-01'::TIMESTAMP;
SELECT greatest(1,2), least(1,2), coalesce(NULL,1), nullif(1,1), ifnull(NULL,1), if(true,1,2);
-- refused: numeric value out of range
SELECT 9223372036854775807 + 1;
-- refused: bigint out of range
SELECT sum(x) FROM (VALUES (9223372036854775807),(1)) t(x);
SELECT typeof(1), pg_typeof(1), arrow_typeof(1);
SELECT version();

-- Aggregates.

CREATE OR REPLACE TABLE emp (
    id INTEGER, name VARCHAR, dept VARCHAR, sal DOUBLE, hired DATE, seen TIMESTAMP
);
INSERT INTO emp VALUES
    (1, 'ann', 'x', 10, '2020-01-01', '2024-01-01'), (2, 'bob', 'x', 20, '2020-06-01', NULL),
    (3, 'cid', 'y', 30, '2021-01-01', '2024-01-03'), (4, 'dan', 'y', 40, '2021-02-01', NULL),
    (5, 'eve', NULL, NULL, NULL, NULL), (6, 'fay', 'z', 60, '2022-01-01', '2024-01-06');

SELECT count(*) FILTER (WHERE sal > 15), sum(sal), avg(sal), median(sal), mode(dept),
    stddev(sal), quantile_cont(sal, 0.9) FROM emp;
SELECT mode(dept) FROM emp;
SELECT mode() WITHIN GROUP (ORDER BY dept) FROM emp;
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY sal) FROM emp;
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY sal) FROM emp;
SELECT quantile_cont(sal, 0.5) FROM emp;
SELECT quantile(sal, 0.5) FROM emp;
SELECT arg_max(name, sal), max_by(name, sal) FROM emp;
SELECT first(name), last(name), any_value(name) FROM emp;
SELECT any_value(name) FROM emp;
SELECT list(name), array_agg(name ORDER BY id DESC), string_agg(name, ',' ORDER BY id) FROM emp;
SELECT list(name) FROM emp;
SELECT group_concat(name, ',') FROM emp;
SELECT histogram(dept) FROM emp;
SELECT approx_count_distinct(dept), approx_quantile(sal,0.5) FROM emp;
SELECT approx_distinct(dept), approx_percentile_cont(sal,0.5) FROM emp;
SELECT bool_and(id>0), bit_or(id), corr(id,id), regr_slope(id,id), kurtosis(id), skewness(id),
    entropy(id) FROM emp;
SELECT corr(id,id), regr_slope(id,id), covar_pop(id,id), var_samp(id) FROM emp;
SELECT count_if(id > 1) FROM emp;
SELECT min(name,2) FROM emp;
SELECT dept, count(*) FROM emp GROUP BY ALL ORDER BY ALL;
SELECT dept, count(*) FROM emp GROUP BY ALL;
SELECT dept, count(*) c FROM emp GROUP BY dept HAVING c > 1;
SELECT dept, grouping(dept), count(*) FROM emp GROUP BY ROLLUP (dept);
SELECT dept, name, count(*), grouping_id(dept,name) FROM emp GROUP BY GROUPING SETS
    ((dept),(name),());
SELECT dept, name, count(*) FROM emp GROUP BY CUBE (dept, name);

-- Queries.

FROM emp;
FROM emp SELECT id;
SELECT * EXCLUDE (name) FROM emp;
SELECT * REPLACE (id + 1 AS id) FROM emp;
SELECT * RENAME (id AS k) FROM emp;
SELECT COLUMNS('s.*') FROM emp;
SELECT id + 1 AS k, k * 2 FROM emp;
SELECT name, sal, rank() OVER (PARTITION BY dept ORDER BY sal DESC) r FROM emp QUALIFY r = 1;
SELECT sum(sal) OVER w, lag(sal) OVER w FROM emp WINDOW w AS (PARTITION BY dept ORDER BY id ROWS
    BETWEEN 1 PRECEDING AND CURRENT ROW);
SELECT sum(id) OVER (ORDER BY hired RANGE BETWEEN INTERVAL '1 year' PRECEDING AND CURRENT ROW)
    FROM emp;
SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE
    CURRENT ROW) FROM emp;
SELECT first_value(name IGNORE NULLS) OVER (ORDER BY id), nth_value(name,2) OVER (ORDER BY id),
    ntile(3) OVER (ORDER BY id), cume_dist() OVER (ORDER BY id) FROM emp;
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n < 5) SELECT * FROM r;
WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n % 3 + 1 FROM r) SELECT * FROM r;
PIVOT emp ON dept USING sum(sal);
SELECT * FROM emp PIVOT (sum(sal) FOR dept IN ('x','y'));
UNPIVOT emp ON id INTO NAME n VALUE v;
SELECT * FROM emp e ASOF JOIN emp f ON e.id >= f.id;
SELECT * FROM emp e POSITIONAL JOIN emp f;
SELECT * FROM emp e SEMI JOIN emp f USING (id);
SELECT * FROM emp e LEFT SEMI JOIN emp f ON e.id = f.id;
SELECT * FROM emp e, LATERAL (SELECT e.id + 1 AS k) l;
SELECT e.id, u FROM emp e CROSS JOIN UNNEST([1,2]) AS t(u);
SELECT * FROM emp NATURAL JOIN emp f;
SELECT * FROM emp USING SAMPLE 50%;
SELECT * FROM emp TABLESAMPLE BERNOULLI (50);
SELECT DISTINCT ON (dept) dept, name FROM emp ORDER BY dept, sal DESC;
SELECT * FROM emp ORDER BY sal DESC NULLS LAST LIMIT 2 OFFSET 1;
SELECT * FROM emp LIMIT 50%;
SELECT * FROM emp FETCH FIRST 2 ROWS ONLY;
SELECT * FROM emp WHERE (id, name) IN ((1,'ann'));
SELECT * FROM emp WHERE id = ANY(SELECT 1);
SELECT * FROM emp WHERE id > ALL(SELECT 1);
SELECT * FROM emp WHERE id = ANY([1,2]);
SELECT (SELECT max(f.sal) FROM emp f WHERE f.dept = e.dept) FROM emp e;
SELECT (SELECT f.name FROM emp f WHERE f.id = e.id + 1 ORDER BY f.sal LIMIT 1) FROM emp e;
SELECT 1 UNION ALL BY NAME SELECT 2 AS b;
SELECT 1 INTERSECT ALL SELECT 1;
VALUES (1,2),(3,4);
TABLE emp;
SELECT 'a' 'b';
SELECT * FROM (VALUES (1,'a')) t(a,b);
SELECT id FROM emp GROUP BY 1 ORDER BY 1;
select count() from emp;
-- refused: did you mean emp
SELECT "id" FROM "EMP";
SELECT ID FROM EMP;
CREATE TABLE "MixedCase" ("A b" INT);
SELECT "A b" FROM "MixedCase";

-- Help and settings.

CREATE OR REPLACE TABLE emp (
    id INTEGER, name VARCHAR, dept VARCHAR, sal DOUBLE, hired DATE, seen TIMESTAMP
);
INSERT INTO emp VALUES
    (1, 'ann', 'x', 10, '2020-01-01', '2024-01-01'), (2, 'bob', 'x', 20, '2020-06-01', NULL),
    (3, 'cid', 'y', 30, '2021-01-01', '2024-01-03'), (4, 'dan', 'y', 40, '2021-02-01', NULL),
    (5, 'eve', NULL, NULL, NULL, NULL), (6, 'fay', 'z', 60, '2022-01-01', '2024-01-06');

DESCRIBE emp;
DESC emp;
DESCRIBE SELECT 1 AS a;
SUMMARIZE emp;
SHOW TABLES;
SHOW ALL TABLES;
SHOW DATABASES;
SHOW SCHEMAS;
SHOW COLUMNS FROM emp;
SHOW CREATE TABLE emp;
SHOW FUNCTIONS;
SHOW ALL;
SHOW search_path;
SELECT table_name FROM information_schema.tables WHERE table_schema='public';
SELECT column_name, data_type FROM information_schema.columns WHERE table_name='emp';
SELECT * FROM information_schema.views;
SELECT * FROM pg_catalog.pg_tables;
SELECT * FROM duckdb_tables();
PRAGMA table_info('emp');
-- refused: cannot grow
PRAGMA memory_limit='1GB';
-- refused: cannot grow
SET memory_limit='1GB';
SET memory_limit = '128MB';
SET threads = 2;
SET timezone = 'UTC';
EXPLAIN SELECT * FROM emp;
EXPLAIN ANALYZE SELECT * FROM emp;
EXPLAIN ANALYZE DELETE FROM emp WHERE id = 77;
EXPLAIN DELETE FROM emp WHERE id = 77;
PREPARE p AS SELECT * FROM emp WHERE id = $1;
EXECUTE p(1);
DEALLOCATE p;
-- refused: there are no extensions
INSTALL httpfs;
CHECKPOINT;
VACUUM;
ANALYZE;
.help
.tables
\l
\dt
\d emp
\timing
\i file.sql
\x
\copy emp to 'x.csv'
-- refused: keep or make one first
CREATE USER bob PASSWORD 'x';
CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'y';
CREATE USER bob PASSWORD 'x';
GRANT SELECT ON emp TO bob;
