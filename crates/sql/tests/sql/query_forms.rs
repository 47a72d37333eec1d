//! Forms of queries that DataFusion's parser or planner lacks. The rows are those of PostgreSQL 15
//! for its forms, and of DuckDB 2.0 for all others.

use std::time::{Duration, Instant};

use terrace_sql::Session;

use crate::common::{MIB, check, engine, error, show};

const DRAM: u64 = 64 * MIB;

/// Creates the table of these tests.
pub async fn tables(session: &Session) {
    let tables = "CREATE TABLE emp (id INT, name VARCHAR, dept VARCHAR, sal INT);
        INSERT INTO emp VALUES (1, 'ann', 'x', 10), (2, 'bob', 'x', 20), (3, 'cat', 'y', 30),
            (4, 'dan', 'y', 40), (5, 'eve', NULL, 50), (6, 'ann', 'y', 60)";
    show(session, tables).await;
}

async fn check_all(cases: &[(&str, &str)]) {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, cases).await;
}

/// The names of a result's columns.
pub async fn names(session: &Session, text: &str) -> String {
    let outputs = session.sql(text).await.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let schema = outputs.last().expect("a result").schema.clone();
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(",")
}

async fn check_errors(cases: &[(&str, &str)]) {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (text, said) in cases {
        let error = error(&session, text).await;
        assert!(error.contains(said), "{text}\n{error}");
    }
}

#[tokio::test]
async fn rows_are_fetched_with_their_ties() {
    check_all(&[
        ("SELECT id FROM emp ORDER BY id FETCH FIRST ROW ONLY", "1"),
        ("SELECT id FROM emp ORDER BY id FETCH FIRST (1+1) ROWS ONLY", "1\n2"),
        ("SELECT id FROM emp ORDER BY id OFFSET 1 ROW FETCH NEXT 2 ROWS ONLY", "2\n3"),
        (
            "SELECT dept, id FROM emp ORDER BY 1 FETCH FIRST 3 ROWS WITH TIES",
            "x 1\nx 2\ny 3\ny 4\ny 6",
        ),
        (
            "SELECT dept AS d, id FROM emp ORDER BY d OFFSET 1 FETCH FIRST 2 ROWS WITH TIES",
            "x 2\ny 3\ny 4\ny 6",
        ),
        ("SELECT DISTINCT dept FROM emp ORDER BY dept FETCH FIRST 1 ROWS WITH TIES", "x"),
        (
            "SELECT dept, count(*) AS n FROM emp GROUP BY dept ORDER BY count(*) DESC FETCH FIRST \
             2 ROWS WITH TIES",
            "y 3\nx 2",
        ),
        (
            "SELECT dept FROM emp UNION ALL SELECT dept FROM emp ORDER BY 1 FETCH FIRST 1 ROWS \
             WITH TIES",
            "x\nx\nx\nx",
        ),
        ("TABLE emp ORDER BY id LIMIT 1", "1 ann x 10"),
        ("SELECT count(*) FROM (TABLE emp UNION ALL TABLE emp) t", "12"),
    ])
    .await;
}

#[tokio::test]
async fn limits_may_be_shares() {
    check_all(&[
        ("SELECT count(*) FROM emp LIMIT 50%", ""),
        ("SELECT id FROM emp ORDER BY id LIMIT 50 PERCENT", "1\n2\n3"),
        ("SELECT id FROM emp ORDER BY id LIMIT 50% OFFSET 2", "3\n4\n5"),
        ("SELECT id FROM emp ORDER BY id LIMIT (20+30)%", "1\n2\n3"),
        ("SELECT id FROM emp ORDER BY id LIMIT 33.4%", "1\n2"),
        ("SELECT abs(id) FROM emp ORDER BY sal DESC LIMIT 50%", "6\n5\n4"),
        ("SELECT DISTINCT dept FROM emp ORDER BY dept LIMIT 50%", "x"),
        ("SELECT unnest([1,2,3,4]) LIMIT 50%", "1\n2"),
        ("SELECT id FROM emp ORDER BY id LIMIT 7 % 4", "1\n2\n3"),
    ])
    .await;
}

#[tokio::test]
async fn impossible_limits_are_refused() {
    check_errors(&[
        ("SELECT id FROM emp FETCH FIRST 1 ROWS WITH TIES", "WITH TIES without ORDER BY"),
        ("SELECT id FROM emp LIMIT 1 FETCH FIRST 1 ROWS ONLY", "LIMIT and FETCH"),
        ("SELECT id FROM emp ORDER BY id LIMIT 120%", "between 0 and 100"),
        ("SELECT id FROM emp ORDER BY id LIMIT -1%", "between 0 and 100"),
    ])
    .await;
}

#[tokio::test]
async fn aliases_are_seen_behind_their_definition() {
    check_all(&[
        ("SELECT id + 1 AS k, k * 2 FROM emp ORDER BY 1 LIMIT 1", "2 4"),
        ("SELECT id + 1 AS sal, sal * 2 FROM emp ORDER BY id LIMIT 1", "2 20"),
        ("SELECT id + 1 AS k FROM emp WHERE k > 5 ORDER BY 1", "6\n7"),
        ("SELECT id % 2 AS k, count(*) FROM emp GROUP BY k HAVING k = 1", "1 3"),
        (
            "SELECT id AS k, row_number() OVER (ORDER BY id) AS r FROM emp QUALIFY r < 2 AND k = 1",
            "1 1",
        ),
        ("SELECT sum(sal) AS s, s + 1 FROM emp", "210 211"),
        ("SELECT sal + 1 AS a, a + 1 AS b, b + 1 AS c FROM emp ORDER BY 1 LIMIT 1", "11 12 13"),
        ("SELECT 1 AS a, a + 1 AS b", "1 2"),
        ("SELECT * FROM (SELECT id * 2 AS k, k + 1 AS j FROM emp) t WHERE j < 4", "2 3"),
    ])
    .await;
    check_errors(&[
        ("SELECT k * 2, id + 1 AS k FROM emp", "No field named k"),
        ("SELECT random() AS r, r - r AS d FROM emp", "compute it in a subquery"),
    ])
    .await;
}

#[tokio::test]
async fn columns_are_chosen_by_their_names() {
    check_all(&[
        ("SELECT * RENAME (id AS k) FROM emp ORDER BY k LIMIT 1", "1 ann x 10"),
        ("SELECT COLUMNS('a') FROM emp ORDER BY 2 LIMIT 1", "ann 10"),
        ("SELECT COLUMNS(* EXCLUDE (id)) FROM emp ORDER BY sal LIMIT 1", "ann x 10"),
        ("SELECT min(COLUMNS(*)) FROM emp", "1 ann x 10"),
        ("SELECT COLUMNS(['id', 'sal']) + 1 FROM emp ORDER BY 1 LIMIT 1", "2 11"),
        ("SELECT id, COLUMNS('s.*') + COLUMNS('s.*') AS q FROM emp ORDER BY 1 LIMIT 1", "1 20"),
        ("SELECT * LIKE 's%' FROM emp ORDER BY 1 LIMIT 1", "10"),
        ("SELECT * ILIKE 'S%' FROM emp ORDER BY 1 LIMIT 1", "10"),
        ("SELECT * NOT LIKE 's%' FROM emp ORDER BY 1 LIMIT 1", "1 ann x"),
        ("SELECT * GLOB 's*' FROM emp ORDER BY 1 LIMIT 1", "10"),
        ("SELECT * SIMILAR TO 's.*' FROM emp ORDER BY 1 LIMIT 1", "10"),
        (
            "SELECT * FROM emp WHERE COLUMNS(* EXCLUDE (name, dept)) > 4 ORDER BY id",
            "5 eve  50\n6 ann y 60",
        ),
        ("SELECT e.* RENAME (id AS k) FROM emp e ORDER BY 1 LIMIT 1", "1 ann x 10"),
        ("SELECT * EXCLUDE (sal) RENAME (id AS k) FROM emp ORDER BY 1 LIMIT 1", "1 ann x"),
        (
            "WITH a AS (SELECT COLUMNS('id|sal') FROM emp), b AS (SELECT * RENAME (sal AS w) \
             FROM a) SELECT COLUMNS('w') FROM b ORDER BY 1 LIMIT 1",
            "10",
        ),
    ])
    .await;
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (text, expected) in [
        ("SELECT * RENAME (id AS k) FROM emp", "k,name,dept,sal"),
        ("SELECT min(COLUMNS('s(a)l')) AS \"q_\\0_\\1\" FROM emp", "q_sal_a"),
        ("SELECT min(COLUMNS(*)) FROM emp", "id,name,dept,sal"),
        ("SELECT COLUMNS('id') + 1 FROM emp", "id"),
    ] {
        assert_eq!(names(&session, text).await, expected, "{text}");
    }
    check_errors(&[
        ("SELECT COLUMNS('D') FROM emp", "no column matches"),
        ("SELECT COLUMNS('(') FROM emp", "is not a regular expression"),
        ("SELECT * RENAME (zz AS k) FROM emp", "there is no such column"),
        ("SELECT COLUMNS('id') + COLUMNS('sal') FROM emp", "choose the same"),
    ])
    .await;
}

#[tokio::test]
async fn all_columns_order_a_result() {
    check_all(&[
        ("SELECT dept, id FROM emp ORDER BY ALL DESC NULLS LAST LIMIT 2", "y 6\ny 4"),
        ("SELECT dept, count(*) FROM emp GROUP BY ALL ORDER BY ALL", "x 2\ny 3\n 1"),
        ("SELECT * FROM emp ORDER BY ALL LIMIT 1", "1 ann x 10"),
        ("SELECT id + 1, id FROM emp ORDER BY ALL LIMIT 1", "2 1"),
        ("SELECT id FROM emp UNION ALL SELECT 0 ORDER BY ALL LIMIT 2", "0\n1"),
    ])
    .await;
}

#[tokio::test]
async fn columns_may_have_one_name() {
    check_all(&[
        ("SELECT TRY_CAST('x' AS INT), 'x'::VARCHAR, TRY_CAST('1' AS INT), '1'::INT", " x 1 1"),
        ("SELECT DISTINCT CAST(id AS DOUBLE), id FROM emp ORDER BY id LIMIT 1", "1.0 1"),
        ("SELECT a.id, a.id + 1 AS id FROM emp a ORDER BY a.id LIMIT 1", "1 2"),
        ("SELECT id, max(sal) AS id FROM emp GROUP BY id ORDER BY 1 LIMIT 1", "1 10"),
        ("SELECT a.id, count(*) AS id FROM emp a GROUP BY a.id ORDER BY a.id LIMIT 1", "1 1"),
    ])
    .await;
}

#[tokio::test]
async fn repeated_columns_of_grouping_sets_count_once() {
    const T: &str = "SELECT a, b, count(*) FROM (VALUES (1, 2), (1, 3)) t(a, b) GROUP BY";
    let (cube, rollup) = (format!("{T} CUBE (a, b, a)"), format!("{T} ROLLUP (a, b, a)"));
    let sets = format!("{T} GROUPING SETS ((a, a), (a, b)) ORDER BY 1, 2");
    check_all(&[
        (
            &format!("{cube} ORDER BY 1, 2"),
            "1 2 1\n1 2 1\n1 2 1\n1 3 1\n1 3 1\n1 3 1\n1  2\n1  2\n1  2\n 2 1\n 3 1\n  2",
        ),
        (&format!("{rollup} ORDER BY 1, 2"), "1 2 1\n1 2 1\n1 3 1\n1 3 1\n1  2\n  2"),
        (&sets, "1 2 1\n1 3 1\n1  2"),
    ])
    .await;
}

#[tokio::test]
async fn operators_of_other_databases_work() {
    check_all(&[
        ("SELECT 2 ** 3, 2 ** 3 ** 2, -2 ** 2, 2 * 3 ** 2, 2 ^ 3", "8.0 64.0 4.0 18.0 8.0"),
        ("SELECT 7 // 2, -7 // 2, 7 // -2, 7.5::DOUBLE // 2", "3 -3 -3 3.75"),
        (
            "SELECT 'abc' ^@ 'ab', 'a' || 'b' ^@ 'ab', 'a' !~~ 'b', 'A' !~~* 'a'",
            "true true true false",
        ),
        ("SELECT 'abc' GLOB 'a*', 'abc' NOT GLOB 'a*', 'abc' GLOB '[!a]*'", "true false false"),
        ("SELECT 1 AS glob, 'a.b' GLOB 'a?b', 'a\nb' GLOB 'a*'", "1 true true"),
        (
            "SELECT 5 BETWEEN SYMMETRIC 7 AND 3, 5 NOT BETWEEN SYMMETRIC 7 AND 3, NULL BETWEEN \
             SYMMETRIC 1 AND 2",
            "true false ",
        ),
        (
            "SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE NO \
             OTHERS) FROM emp LIMIT 2",
            "1\n3",
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_table_is_named_sample() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE sample AS SELECT 1 AS id; CREATE TABLE u AS SELECT 1 AS id").await;
    show(&session, "DELETE FROM u USING sample WHERE u.id = sample.id").await;
    show(
        &session,
        "MERGE INTO u USING sample ON u.id = sample.id WHEN NOT MATCHED THEN INSERT VALUES (5)",
    )
    .await;
    show(&session, "ANALYZE TABLE sample").await;
    check(&session, &[("SELECT id FROM u", "5")]).await;
}

#[tokio::test]
async fn rows_are_sampled() {
    check_all(&[
        ("SELECT count(*) FROM emp TABLESAMPLE BERNOULLI (100)", "6"),
        ("SELECT count(*) FROM emp TABLESAMPLE SYSTEM (0)", "0"),
        ("SELECT count(*) FROM emp TABLESAMPLE 100%", "6"),
        ("SELECT count(*) FROM emp TABLESAMPLE reservoir(3 ROWS)", "3"),
        ("SELECT count(*) FROM emp TABLESAMPLE reservoir(50%)", "3"),
        ("SELECT count(*) FROM emp USING SAMPLE 100%", "6"),
        ("SELECT count(*) FROM emp WHERE id < 0 USING SAMPLE 100%", "0"),
        ("SELECT count(*) FROM emp USING SAMPLE 2", "2"),
        ("SELECT count(*) FROM emp USING SAMPLE 100 PERCENT (bernoulli)", "6"),
        ("SELECT count(*) FROM emp e USING SAMPLE reservoir(4 ROWS)", "4"),
        ("SELECT count(*) FROM emp a JOIN emp b USING (id) USING SAMPLE 0%", "0"),
        ("SELECT count(*) FROM emp a JOIN emp b USING (id) USING SAMPLE 100%", "6"),
    ])
    .await;
    check_errors(&[
        ("SELECT 1 USING SAMPLE 5", "a query with FROM"),
        ("SELECT 1 FROM emp USING SAMPLE 101%", "between 0 and 100"),
        ("SELECT 1 FROM emp, emp b USING SAMPLE 5", "say a percentage"),
        ("SELECT 1 FROM emp TABLESAMPLE BERNOULLI (5 ROWS)", "say a percentage"),
    ])
    .await;
}

#[tokio::test]
async fn series_have_the_names_of_their_functions() {
    check_all(&[
        ("SELECT generate_series FROM generate_series(1, 2)", "1\n2"),
        ("SELECT range FROM range(2)", "0\n1"),
        ("SELECT g, g.g FROM generate_series(1, 2) AS g", "1 1\n2 2"),
        ("SELECT value, g.value FROM generate_series(1, 2) AS g", "1 1\n2 2"),
        ("SELECT n FROM generate_series(1, 2) AS g(n)", "1\n2"),
        (
            "SELECT id, s FROM emp, generate_series(1, emp.id) s WHERE id < 3 ORDER BY 1, 2",
            "1 1\n2 1\n2 2",
        ),
        (
            "SELECT id, value FROM emp, generate_series(1, emp.id) s WHERE id < 3 ORDER BY 1, 2",
            "1 1\n2 1\n2 2",
        ),
        (
            "SELECT generate_series::DATE FROM generate_series(DATE '2024-01-01', DATE \
             '2024-01-02', INTERVAL '1 day')",
            "2024-01-01\n2024-01-02",
        ),
    ])
    .await;
}

#[tokio::test]
async fn order_by_names_columns_of_the_result() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (10)) AS v(i)").await;
    let cases = [
        ("SELECT i::text FROM t ORDER BY i", "1\n10\n2"),
        ("SELECT CAST(t.i AS VARCHAR) FROM t ORDER BY i", "1\n10\n2"),
        ("SELECT (i)::text FROM t ORDER BY (i) DESC", "2\n10\n1"),
        ("SELECT i::text FROM t ORDER BY t.i", "1\n2\n10"),
        ("SELECT i::text FROM t ORDER BY -i", "10\n2\n1"),
        ("SELECT i::text FROM t ORDER BY i || 'x'", "10\n1\n2"),
        ("SELECT i::text AS x FROM t ORDER BY i", "1\n2\n10"),
        ("SELECT DISTINCT i::text FROM t ORDER BY i", "1\n10\n2"),
        ("SELECT i::text FROM t UNION SELECT '3' ORDER BY i", "1\n10\n2\n3"),
        ("SELECT i::text FROM t GROUP BY i ORDER BY i", "1\n10\n2"),
        ("SELECT i::text FROM t ORDER BY i LIMIT 2", "1\n10"),
        ("SELECT i::text FROM t ORDER BY i FETCH FIRST 2 ROWS WITH TIES", "1\n10"),
        ("SELECT abs(5 - i) FROM t ORDER BY abs", "3\n4\n5"),
        ("SELECT i % 2 AS i FROM t GROUP BY i ORDER BY i", "0\n0\n1"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn frames_that_end_before_they_start_are_empty() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT value AS i FROM generate_series(1, 5)").await;
    for frame in [
        "ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING",
        "ROWS BETWEEN 4 FOLLOWING AND 1 FOLLOWING",
        "ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING",
        "ROWS BETWEEN 0 PRECEDING AND 4 PRECEDING",
        "GROUPS BETWEEN 3 FOLLOWING AND 1 FOLLOWING",
        "GROUPS BETWEEN 1 PRECEDING AND 3 PRECEDING",
        "RANGE BETWEEN 3 FOLLOWING AND 1 FOLLOWING",
        "RANGE BETWEEN 1 PRECEDING AND 3 PRECEDING",
    ] {
        let query = format!(
            "SELECT count(*) OVER w, sum(i) OVER w, max(i) OVER w, first_value(i) OVER w, \
             last_value(i) OVER w, nth_value(i, 1) OVER w FROM t WINDOW w AS (ORDER BY i {frame})"
        );
        assert_eq!(show(&session, &query).await, ["0     "; 5].join("\n"), "{frame}");
        let text = format!("SELECT string_agg('x', ',') OVER (ORDER BY i {frame}) IS NULL FROM t");
        assert_eq!(show(&session, &text).await, ["true"; 5].join("\n"), "{frame}");
        let query = format!("SELECT count(i) OVER (ORDER BY i {frame}) FROM t");
        assert_eq!(show(&session, &query).await, ["0"; 5].join("\n"), "{frame}");
    }
    let days = "SELECT count(*) OVER (ORDER BY CAST('2024-01-0' || i AS DATE) RANGE BETWEEN \
                INTERVAL '3 days' FOLLOWING AND INTERVAL '1 day' FOLLOWING) FROM t";
    assert_eq!(show(&session, days).await, ["0"; 5].join("\n"));
    for (frame, cause) in [
        ("ROWS BETWEEN CURRENT ROW AND 1 PRECEDING", "current row cannot have preceding rows"),
        ("ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING", "following row cannot have preceding rows"),
        ("ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW", "following row cannot have preceding rows"),
        ("RANGE 1 FOLLOWING", "following row cannot end with current row"),
        ("ROWS UNBOUNDED FOLLOWING", "start cannot be UNBOUNDED FOLLOWING"),
        ("ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING", "end cannot be UNBOUNDED PRECEDING"),
    ] {
        let text =
            error(&session, &format!("SELECT sum(i) OVER (ORDER BY i {frame}) FROM t")).await;
        assert!(text.contains(cause), "{frame}: {text}");
    }
}

#[tokio::test]
async fn functions_that_return_rows_stand_in_a_select_list() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t AS SELECT * FROM (VALUES (1), (3)) AS v(k);
        CREATE FUNCTION numbers(n int) RETURNS SETOF int LANGUAGE SQL
            AS $$ SELECT generate_series(1, n) $$;
        CREATE FUNCTION two() RETURNS TABLE(x int) LANGUAGE SQL AS 'VALUES (7), (8)'";
    show(&session, made).await;
    let cases = [
        ("SELECT generate_series(1, 3)", "1\n2\n3"),
        ("SELECT generate_series FROM (SELECT generate_series(4, 5)) q", "4\n5"),
        ("SELECT generate_series(1, 3) * 10 AS x ORDER BY x DESC", "30\n20\n10"),
        ("SELECT generate_series(1, 3), generate_series(1, 2)", "1 1\n2 2\n3 "),
        ("SELECT unnest([1, 2]), generate_series(5, 7), 'x'", "1 5 x\n2 6 x\n 7 x"),
        ("SELECT k, generate_series(1, k) FROM t ORDER BY 1, 2", "1 1\n3 1\n3 2\n3 3"),
        ("SELECT generate_series(1, unnest([1, 2])) AS n", "1\n1\n2"),
        ("SELECT k FROM t WHERE k IN (SELECT generate_series(2, 4))", "3"),
        ("SELECT generate_series(3, 1)", ""),
        ("SELECT numbers(2)", "1\n2"),
        ("SELECT * FROM numbers(2)", "1\n2"),
        ("SELECT numbers FROM (SELECT numbers(1)) q", "1"),
        ("SELECT k, numbers(k) FROM t ORDER BY 1, 2", "1 1\n3 1\n3 2\n3 3"),
        ("SELECT two(), numbers(3)", "7 1\n8 2\n 3"),
        ("SELECT unnest((SELECT [1, 2] AS l)), unnest((SELECT [3] AS l))", "1 3\n2 "),
        (
            "SELECT t.k, n.n FROM t, LATERAL numbers(t.k) AS n(n) ORDER BY 1, 2",
            "1 1\n3 1\n3 2\n3 3",
        ),
    ];
    check(&session, &cases).await;
    show(&session, "CREATE TABLE made (i INT); INSERT INTO made SELECT generate_series(1, 1000)")
        .await;
    check(&session, &[("SELECT count(*), sum(i) FROM made", "1000 500500")]).await;
}

#[tokio::test]
async fn statements_that_are_too_large_to_plan_are_refused_at_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS i").await;
    let joins: Vec<_> = (1..900).map(|n| format!("JOIN t t{n} ON t{n}.i = t0.i")).collect();
    let began = Instant::now();
    let text = error(&session, &format!("SELECT 1 FROM t t0 {}", joins.join(" "))).await;
    assert!(text.contains("a FROM of 900 relations"), "{text}");
    let tables: Vec<_> = (0..900).map(|n| format!("t t{n}")).collect();
    let text = error(&session, &format!("SELECT 1 FROM {}", tables.join(", "))).await;
    assert!(text.contains("a FROM of 900 relations"), "{text}");
    let literals: Vec<_> = (0..1_000_000).map(|n| n.to_string()).collect();
    let list = format!("SELECT 1 FROM t WHERE i IN ({})", literals.join(", "));
    let text = error(&session, &list).await;
    assert!(text.contains("COPY"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let few = joins[..50].join(" ");
    assert_eq!(show(&session, &format!("SELECT t50.i FROM t t0 {few}")).await, "1");
}
