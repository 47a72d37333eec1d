//! Codes of errors (`SQLSTATE`), as of PostgreSQL 15.

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
            ("BEGIN READ ONLY; WITH q AS (SELECT 1 AS a) INSERT INTO g (a) TABLE q", "25006"),
        ] {
            let error = client.batch_execute(statement).await.expect_err(statement);
            assert_eq!(error.code().map(|it| it.code()), Some(code), "{statement}: {error:?}");
        }
    })
    .await;
}
