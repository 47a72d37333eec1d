//! Codes of errors (`SQLSTATE`), as of PostgreSQL 15.
//!
//! [`ERRORS`] are those that psql shows of PostgreSQL 15 for statements about the tables of
//! [`TABLES`].

use terrace_server::Limits;

use crate::common::{connect, with_server};

#[tokio::test]
async fn errors_have_the_codes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        let prepare = "PREPARE p AS SELECT $1::INT; \
                       CREATE TABLE g (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED)";
        client.batch_execute(prepare).await.expect("prepared");
        for (statement, code) in [
            ("EXECUTE missing", "26000"),
            ("EXECUTE p(1, 2)", "42601"),
            ("UPDATE g SET (a, b) = (SELECT 1)", "42601"),
            ("UPDATE g SET (a, b) = (1, 2, 3)", "42601"),
            ("SELECT 1 LIMIT -1", "2201W"),
            ("SELECT 1 OFFSET -1", "2201X"),
            ("CREATE SEQUENCE s START 0", "22023"),
            ("CREATE SEQUENCE s MINVALUE 5 MAXVALUE 4", "22023"),
            ("CREATE TABLE z (a NOTYPE)", "42704"),
            ("CREATE TABLE z (a INT, a INT)", "42701"),
            ("CREATE TABLE z (a INT DEFAULT 'x')", "22P02"),
            ("ALTER TABLE g DROP COLUMN a", "2BP01"),
            ("SET missing = 1", "42704"),
            ("SELECT 'a' ~ '('", "2201B"),
            ("SELECT x ~ '(' FROM (VALUES ('a'), ('b')) q(x)", "2201B"),
            (
                "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT max(n) FROM t) SELECT n FROM t",
                "42P19",
            ),
            ("WITH RECURSIVE t(n) AS (SELECT n FROM t) SELECT n FROM t", "42P19"),
            (
                "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t LIMIT 3) \
                 SELECT n FROM t",
                "0A000",
            ),
            (
                "SELECT count(*) OVER (ORDER BY x RANGE 1 PRECEDING) FROM (VALUES ('a')) t(x)",
                "0A000",
            ),
            ("SELECT count(*) OVER (ORDER BY a ROWS -1 PRECEDING) FROM (VALUES (1)) t(a)", "22013"),
            (
                "SELECT count(*) OVER (ORDER BY a RANGE -1 PRECEDING) FROM (VALUES (1)) t(a)",
                "22013",
            ),
            (
                "SELECT count(*) OVER (ORDER BY a ROWS NULL PRECEDING) FROM (VALUES (1)) t(a)",
                "22004",
            ),
            ("SELECT count(*) OVER (ORDER BY a ROWS a PRECEDING) FROM (VALUES (1)) t(a)", "42P10"),
            ("SELECT count(*) OVER (RANGE 1 PRECEDING) FROM (VALUES (1)) t(a)", "42P20"),
            (
                "SELECT count(*) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) \
                 FROM (VALUES (1)) t(a)",
                "42P20",
            ),
            (
                "SELECT count(*) OVER (ROWS INTERVAL '1 day' PRECEDING) FROM (VALUES (1)) t(a)",
                "42804",
            ),
            ("SELECT 1::float8 / 0", "22012"),
            ("BEGIN READ ONLY; WITH q AS (SELECT 1 AS a) INSERT INTO g (a) TABLE q", "25006"),
        ] {
            let error = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(error.code().map(|it| it.code()), Some(code), "{statement}: {error:?}");
        }
    })
    .await;
}

/// Definitions of the tables that the statements are about.
const TABLES: &str = "CREATE TABLE t (k INT NOT NULL, v TEXT, n NUMERIC(5,2), c VARCHAR(3), \
    d DATE, b BOOLEAN, u UUID, s SMALLINT CHECK (s > 0), g BIGINT); \
    CREATE TABLE o (k INT, w TEXT); \
    INSERT INTO t VALUES (1,'a',1,'x','2024-01-01',true,NULL,1,1), \
        (2,'b',2,'y','2024-01-02',false,NULL,2,2); \
    INSERT INTO o VALUES (1,'a'),(2,'b'); \
    CREATE VIEW vw AS SELECT k FROM t";

/// Codes and the statements that fail with them.
const ERRORS: &[(&str, &[&str])] = &[
    (
        "0A000",
        &[
            "SELECT DISTINCT k FROM t FOR UPDATE",
            "SELECT count(*) FROM t FOR UPDATE",
            "SELECT k FROM t GROUP BY k FOR UPDATE",
            "SELECT k FROM t UNION SELECT k FROM o FOR UPDATE",
            "SELECT row_number() OVER () FROM t FOR UPDATE",
            "SELECT k FROM t HAVING true FOR UPDATE",
            "VALUES (1) FOR UPDATE",
            "WITH q AS (SELECT k FROM t) SELECT * FROM q FOR UPDATE OF q",
        ],
    ),
    ("21000", &["SELECT (SELECT k FROM t)", "SELECT k FROM t WHERE k = (SELECT k FROM o)"]),
    ("22001", &["INSERT INTO t (k, c) VALUES (3, 'abcdef')", "UPDATE t SET c = 'abcdef'"]),
    (
        "22003",
        &[
            "SELECT 3000000000::int",
            "SELECT 40000::smallint",
            "SELECT 2147483647::int + 1::int",
            "SELECT 9223372036854775807 + 1",
            "SELECT 9223372036854775807 * 2",
            "SELECT '99999999999'::int",
            "SELECT '99999999999999999999'::bigint",
            "SELECT 12345.678::numeric(5,2)",
            "INSERT INTO t (k, n) VALUES (3, 12345)",
            "INSERT INTO t (k, s) VALUES (3, 70000)",
            "INSERT INTO o VALUES (3000000000, 'x')",
            "SELECT sum(g * 9223372036854775807) FROM t",
            "SELECT abs((-2147483648)::int)",
            "SELECT exp(1000::float8)",
        ],
    ),
    (
        "22007",
        &[
            "SELECT 'x'::date",
            "SELECT 'abc'::timestamptz",
            "SELECT '1 foo'::interval",
            "SELECT DATE '20x4-01-01'",
        ],
    ),
    (
        "22008",
        &[
            "SELECT '2024-02-30'::date",
            "SELECT '2024-13-01'::timestamp",
            "SELECT '25:00:00'::time",
            "SELECT make_date(2024, 2, 30)",
            "SELECT to_date('2024-02-30', 'YYYY-MM-DD')",
            "SELECT '294277-01-01'::timestamp",
        ],
    ),
    ("22011", &["SELECT substring('abc' FROM 1 FOR -1)"]),
    ("22012", &["SELECT 1 / 0", "SELECT 1.0 / 0", "SELECT k / (k - 1) FROM t", "SELECT 1 % 0"]),
    ("2201B", &["SELECT 'a' ~ '['"]),
    ("2201E", &["SELECT ln(0)"]),
    ("2201F", &["SELECT sqrt(-1)", "SELECT power(0, -1)"]),
    (
        "22023",
        &[
            "SELECT date_trunc('foo', now())",
            "SELECT extract(foo FROM now())",
            "SELECT now() AT TIME ZONE 'Nowhere/Land'",
            "SELECT chr(-1)",
            "SELECT decode('zz', 'hex')",
            "SET datestyle = 'foo'",
            "SET statement_timeout = 'x'",
            "SET ROLE nosuch",
            "SELECT set_config('statement_timeout', 'x', false)",
        ],
    ),
    ("22025", &["SELECT 'a' LIKE 'b' ESCAPE 'xx'"]),
    (
        "22P02",
        &[
            "SELECT 'abc'::int",
            "SELECT CAST('x' AS NUMERIC)",
            "SELECT 'x'::double precision",
            "SELECT 'not-a-uuid'::uuid",
            "SELECT 'maybe'::boolean",
            "SELECT '{1,2'::int[]",
            "SELECT '{bad'::json",
            "SELECT '{bad'::jsonb",
            "SELECT '1.5'::int",
            "INSERT INTO o VALUES ('x', 'a')",
            "SELECT 'x' + 1",
            "SELECT 1 = 'x'",
            "SELECT k FROM t WHERE k IN ('x')",
            "SELECT k FROM t LIMIT 'x'",
        ],
    ),
    (
        "23502",
        &[
            "INSERT INTO t (v) VALUES ('a')",
            "INSERT INTO t (k) VALUES (NULL)",
            "UPDATE t SET k = NULL",
        ],
    ),
    ("23514", &["INSERT INTO t (k, s) VALUES (3, -1)", "UPDATE t SET s = 0"]),
    (
        "25P01",
        &[
            "SAVEPOINT s",
            "ROLLBACK TO s",
            "RELEASE s",
            "DECLARE c CURSOR FOR SELECT 1",
            "LOCK TABLE t",
            "COMMIT AND CHAIN",
            "ROLLBACK AND CHAIN",
        ],
    ),
    ("26000", &["EXECUTE nosuch", "DEALLOCATE nosuch"]),
    ("34000", &["FETCH FROM nosuch", "CLOSE nosuch"]),
    ("3F000", &["DROP SCHEMA nosuch"]),
    (
        "42601",
        &[
            "SELECT k FROM t UNION SELECT k, v FROM t",
            "INSERT INTO o (k, w) VALUES (1)",
            "INSERT INTO o (k) VALUES (1, 'a')",
            "INSERT INTO o SELECT 1, 'a', 3",
            "SELECT (SELECT k, v FROM t)",
            "SELECT k FROM t WHERE k IN (SELECT k, w FROM o)",
            "SELEC 1",
            "SELECT * FROM",
            "SELECT k FROM t WHERE",
            "SELECT *",
        ],
    ),
    (
        "42701",
        &[
            "ALTER TABLE t ADD COLUMN k INT",
            "CREATE TABLE z (a INT, a TEXT)",
            "INSERT INTO t (k, k) VALUES (1, 2)",
        ],
    ),
    ("42702", &["SELECT k FROM t, o", "SELECT k FROM t JOIN o ON t.k = o.k"]),
    (
        "42703",
        &[
            "SELECT nosuch FROM t",
            "SELECT t.nosuch FROM t",
            "SELECT k FROM t WHERE nosuch = 1",
            "INSERT INTO t (nosuch) VALUES (1)",
            "UPDATE t SET nosuch = 1",
            "SELECT k FROM t ORDER BY nosuch",
            "SELECT k FROM t GROUP BY nosuch",
            "SELECT count(nosuch) FROM t",
            "ALTER TABLE t DROP COLUMN nosuch",
            "SELECT * FROM t JOIN o USING (v)",
        ],
    ),
    (
        "42704",
        &[
            "CREATE TABLE z (a NOSUCHTYPE)",
            "SELECT CAST(1 AS nosuchtype)",
            "SELECT set_config('nosuch', '1', false)",
            "SHOW nosuch",
            "SET nosuch = 1",
        ],
    ),
    (
        "42712",
        &[
            "WITH q AS (SELECT 1), q AS (SELECT 2) SELECT * FROM q",
            "SELECT * FROM t, t",
            "SELECT * FROM t a, o a",
        ],
    ),
    (
        "42803",
        &[
            "SELECT k, v FROM t GROUP BY k",
            "SELECT k, count(*) FROM t",
            "SELECT k FROM t WHERE count(*) > 1",
            "SELECT sum(count(*)) FROM t",
            "SELECT k FROM t GROUP BY sum(k)",
            "SELECT k FROM t HAVING v = 'a'",
            "SELECT max(k) FROM t ORDER BY v",
            "SELECT t.k FROM t JOIN o ON sum(t.k) = o.k",
            "UPDATE t SET k = sum(k)",
            "INSERT INTO o VALUES (sum(1), 'a')",
            "SELECT k FROM t LIMIT count(*)",
        ],
    ),
    (
        "42804",
        &[
            "SELECT k FROM t WHERE v",
            "SELECT k FROM t WHERE 1",
            "SELECT CASE WHEN true THEN 1 ELSE true END",
            "SELECT coalesce(1, true)",
            "SELECT NOT 1",
            "SELECT true AND 1",
            "SELECT ARRAY[1, true]",
        ],
    ),
    ("42809", &["DROP TABLE vw", "DROP VIEW t"]),
    ("42846", &["SELECT CAST(true AS date)"]),
    (
        "42883",
        &[
            "SELECT nosuch(1)",
            "SELECT upper(1, 2)",
            "SELECT k + v FROM t",
            "SELECT true + 1",
            "SELECT v - v FROM t",
            "SELECT -v FROM t",
            "SELECT d * 2 FROM t",
            "SELECT sum(v) FROM t",
            "SELECT avg(v) FROM t",
            "SELECT k FROM t WHERE k LIKE 'a%'",
        ],
    ),
    (
        "42P01",
        &[
            "SELECT x.k FROM t",
            "SELECT * FROM nosuch",
            "SELECT * FROM nosuch.t",
            "INSERT INTO nosuch VALUES (1)",
            "DELETE FROM nosuch",
            "DROP TABLE nosuch",
            "DROP VIEW nosuch",
            "ALTER TABLE nosuch ADD COLUMN a INT",
            "TRUNCATE nosuch",
            "SELECT a.* FROM t",
            "SELECT k FROM t FOR UPDATE OF nosuch",
        ],
    ),
    ("42P02", &["SELECT $1"]),
    ("42P05", &["PREPARE twice AS SELECT 1; PREPARE twice AS SELECT 2"]),
    ("42P07", &["CREATE TABLE t (a INT)", "CREATE VIEW vw AS SELECT 1"]),
    (
        "42P10",
        &[
            "SELECT k FROM t ORDER BY 2",
            "SELECT k FROM t ORDER BY 0",
            "SELECT k FROM t GROUP BY 3",
            "SELECT DISTINCT k FROM t ORDER BY v",
            "SELECT DISTINCT ON (k) k, v FROM t ORDER BY v",
            "SELECT k FROM t q(a, b, c, d, e, f, g, h, i, j)",
        ],
    ),
    (
        "42P20",
        &[
            "SELECT k FROM t WHERE row_number() OVER () = 1",
            "SELECT row_number() OVER (ORDER BY row_number() OVER ()) FROM t",
        ],
    ),
    ("54000", &["SELECT repeat('a', 2000000000)"]),
];

#[tokio::test]
async fn statements_fail_with_the_codes_of_postgresql() {
    with_server(Limits::default(), |address| async move {
        let client = connect(address).await;
        client.batch_execute(TABLES).await.expect("made");
        let mut wrong = Vec::new();
        for (code, statements) in ERRORS {
            for statement in *statements {
                let found = match client.batch_execute(statement).await {
                    Ok(()) => "no error".to_owned(),
                    Err(error) => match error.as_db_error() {
                        Some(error) if error.code().code() == *code => continue,
                        Some(error) => format!("{}: {}", error.code().code(), error.message()),
                        None => error.to_string(),
                    },
                };
                wrong.push(format!("{statement}\n    {code}, found {found}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    })
    .await;
}
