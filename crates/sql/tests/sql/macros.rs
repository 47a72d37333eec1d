//! Macros, with the results that DuckDB 2.0 returns unless a test says otherwise.

use std::time::{Duration, Instant};

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show, try_show};

const DRAM: u64 = 64 * MIB;

async fn tables(session: &Session) {
    let text = "CREATE TABLE t (k BIGINT, v BIGINT, n VARCHAR);
        INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (2, 25, 'b'), (NULL, 30, NULL);
        CREATE TABLE u (k BIGINT, w BIGINT);
        INSERT INTO u VALUES (1, 100), (2, 200), (3, 300)";
    show(session, text).await;
}

const DEFINITIONS: &str = "CREATE MACRO add(a, b := 5) AS a + b;
    CREATE MACRO one() AS 1;
    CREATE MACRO twice(x) AS add(x, x);
    CREATE MACRO ratio(x) AS sum(x) / count(x);
    CREATE MACRO sign_of(x) AS CASE WHEN x < 0 THEN 'neg' ELSE 'pos' END;
    CREATE MACRO best(x) AS (SELECT max(v) FROM t WHERE k = x);
    CREATE MACRO increased(l, d) AS list_transform(l, y -> y + d);
    CREATE MACRO over(a) AS a, (a, b) AS a * b, (a, b, c) AS a * b * c;
    CREATE MACRO above(x) AS TABLE SELECT k, v FROM t WHERE v > x;
    CREATE MACRO first_of(n := 1) AS TABLE SELECT v FROM t ORDER BY v LIMIT n;
    CREATE FUNCTION difference(a, b) AS a - b";

const CALLS: &[(&str, &str)] = &[
    ("SELECT add(1, 2), add(1), add(1, b := 3), add(1, b => 3)", "3 6 4 4"),
    ("SELECT one(), one() + one()", "1 2"),
    ("SELECT twice(4) * 2, 10 - add(1, 2)", "16 7"),
    ("SELECT add(NULL), add(1.5, 2)", " 3.5"),
    ("SELECT twice(v) FROM t ORDER BY v", "20\n40\n50\n60"),
    ("SELECT n, ratio(v)::BIGINT FROM t WHERE n IS NOT NULL GROUP BY n ORDER BY n", "a 10\nb 22"),
    ("SELECT sign_of(-1), sign_of(1 - 1)", "neg pos"),
    ("SELECT best(1), best(2), best(7)", "10 25 "),
    ("SELECT w, best(u.k) FROM u ORDER BY w", "100 10\n200 25\n300 "),
    ("SELECT increased([1, 2], 10)", "[11, 12]"),
    ("SELECT over(2), over(2, 3), over(2, 3, 4)", "2 6 24"),
    ("SELECT difference(5, 3), difference(b := 1, a := 9)", "2 8"),
    ("SELECT * FROM above(15) ORDER BY v", "2 20\n2 25\n 30"),
    ("SELECT sum(a.v) FROM above(0) AS a JOIN u ON a.k = u.k", "55"),
    ("FROM first_of()", "10"),
    ("SELECT * FROM first_of(n := 2)", "10\n20"),
    ("SELECT add(1, 1) FROM above(add(10, 10))", "2\n2"),
    ("SELECT k FROM t WHERE add(k, 1) = 3 ORDER BY v", "2\n2"),
    ("SELECT add(k, 1), count(*) FROM t GROUP BY add(k, 1) ORDER BY 1 NULLS LAST", "2 1\n3 2\n 1"),
    ("SELECT (SELECT add(max(v), 1) FROM t), EXISTS (SELECT * FROM above(29))", "31 true"),
    ("WITH c AS (SELECT add(1, 1) AS z) SELECT z, add(z) FROM c", "2 7"),
    ("SELECT main.public.add(1), public.add(2)", "6 7"),
];

#[tokio::test]
async fn calls_are_their_bodies() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    check(&session, CALLS).await;
}

/// The arguments of a macro keep the meaning that they have at the call, also if the table of the
/// body has a column of the same name.
#[tokio::test]
async fn arguments_are_not_captured() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    let cases = [
        ("SELECT w, best(k) FROM u ORDER BY w", "100 10\n200 25\n300 "),
        ("SELECT w, best(k + 1) FROM u ORDER BY w", "100 25\n200 \n300 "),
        ("SELECT k, best(t.k) FROM t ORDER BY v", "1 10\n2 25\n2 25\n "),
    ];
    check(&session, &cases).await;
    show(&session, "CREATE MACRO mapped(l, d) AS list_transform(l, w -> w + d)").await;
    check(&session, &[("SELECT mapped([1], w) FROM u ORDER BY w", "[101]\n[201]\n[301]")]).await;
    let answer = "100 20\n100 25\n100 30\n200 25\n200 30";
    let lateral = "SELECT w, v FROM u, above(w / 10) AS a ORDER BY w, v";
    check(&session, &[(lateral, answer)]).await;
    let text = error(&session, "SELECT * FROM u, above(k) AS a").await;
    assert!(text.contains("say the table before"), "{text}");
}

#[tokio::test]
async fn wrong_definitions_and_calls_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    for (text, reason) in [
        ("CREATE MACRO add(a, b) AS a", "already exists"),
        ("CREATE MACRO abs(a) AS a", "built in"),
        ("CREATE MACRO m(a, a) AS a", "two parameters a"),
        ("CREATE MACRO m(a := 1, b) AS a", "without a default"),
        ("CREATE MACRO m(a) AS a + c", "the name c"),
        ("CREATE MACRO m(a) AS", "Expected"),
        ("CREATE MACRO m(a) AS m(a - 1)", "recursion m(a) -> m(a)"),
        ("CREATE MACRO m(v) AS (SELECT max(v) FROM t)", "parameter and a column"),
        ("CREATE MACRO nosuch.m(a) AS a", "schema nosuch does not exist"),
        ("SELECT add()", "there is add(a, b := 5)"),
        ("SELECT add(1, 2, 3)", "3 arguments"),
        ("SELECT add(1, c := 3)", "there is add"),
        ("SELECT add(b := 1, 2)", "there is add"),
        ("SELECT add(DISTINCT 1)", "belong to aggregates"),
        ("SELECT add(1) OVER ()", "belong to aggregates"),
        ("SELECT above(1)", "which returns rows"),
        ("SELECT add(*) FROM t", "*"),
        ("DROP MACRO nosuch", "macro nosuch does not exist"),
        ("DROP MACRO TABLE add", "macro table add does not exist"),
        ("SELECT nosuch(1)", "nosuch"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
}

#[tokio::test]
async fn recursion_and_growth_are_bounded() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE MACRO m1(a) AS a + a; CREATE MACRO is_even(n) AS n % 2 = 0").await;
    show(&session, "CREATE MACRO is_odd(n) AS NOT is_even(n)").await;
    let text = error(&session, "CREATE OR REPLACE MACRO is_even(n) AS NOT is_odd(n)").await;
    assert!(text.contains("recursion is_even(n) -> is_odd(n) -> is_even(n)"), "{text}");
    for n in 2..=4 {
        let before = n - 1;
        show(&session, &format!("CREATE MACRO m{n}(a) AS m{before}(m{before}(a))")).await;
    }
    let text = error(&session, "CREATE MACRO m5(a) AS m4(m4(a))").await;
    assert!(text.contains("more than 100000 expressions"), "{text}");
    check(&session, &[("SELECT m3(1)", "16")]).await;
    let deep = format!("SELECT {}1{}", "m1(".repeat(12), ")".repeat(12));
    check(&session, &[(deep.as_str(), "4096")]).await;
}

#[tokio::test]
async fn macros_are_replaced_and_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, "CREATE MACRO m(a) AS a + 1; CREATE MACRO IF NOT EXISTS m(a) AS a + 2").await;
    check(&session, &[("SELECT m(1)", "2")]).await;
    show(&session, "CREATE VIEW w AS SELECT m(k) AS x FROM u").await;
    show(&session, "CREATE OR REPLACE MACRO m(a) AS a * 10").await;
    check(&session, &[("SELECT m(1)", "10")]).await;
    show(&session, "BEGIN; CREATE OR REPLACE MACRO m(a) AS -a; ROLLBACK").await;
    check(&session, &[("SELECT m(1)", "10")]).await;
    show(&session, "CREATE MACRO rows() AS TABLE SELECT k FROM u; DROP TABLE t").await;
    check(&session, &[("SELECT count(*) FROM rows()", "3")]).await;
    // A view has the new body of a macro.
    check(&session, &[("SELECT sum(x) FROM w", "60")]).await;
    let text = error(&session, "DROP MACRO m").await;
    assert!(text.contains("view w depends on macro m(a)"), "{text}");
    show(&session, "DROP VIEW w; DROP MACRO m; DROP MACRO IF EXISTS m").await;
    show(&session, "DROP MACRO TABLE rows").await;
    error(&session, "SELECT m(1)").await;
    error(&session, "SELECT * FROM rows()").await;
}

#[tokio::test]
async fn temporary_macros_belong_to_the_session() {
    let engine = engine(DRAM);
    let (session, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&session, "CREATE MACRO m(a) AS a; CREATE TEMP MACRO m(a) AS a + 100").await;
    show(&session, "CREATE TEMPORARY MACRO own() AS TABLE SELECT 7 AS x").await;
    check(&session, &[("SELECT m(1)", "101"), ("SELECT x FROM own()", "7")]).await;
    check(&other, &[("SELECT m(1)", "1")]).await;
    error(&other, "SELECT * FROM own()").await;
    show(&session, "DROP MACRO m").await;
    check(&session, &[("SELECT m(1)", "1")]).await;
}

#[tokio::test]
async fn macros_are_found_by_the_search_path() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SCHEMA s; CREATE MACRO s.m() AS 's'; CREATE MACRO m() AS 'p'").await;
    check(&session, &[("SELECT m(), s.m(), public.m()", "p s p")]).await;
    show(&session, "SET search_path = s, public").await;
    check(&session, &[("SELECT m()", "s")]).await;
    let text = error(&session, "DROP SCHEMA s").await;
    assert!(text.contains("function m/0"), "{text}");
    show(&session, "DROP SCHEMA s CASCADE").await;
    check(&session, &[("SELECT m()", "p")]).await;
}

#[tokio::test]
async fn macros_are_listed() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE MACRO m(a, b := 1) AS a + b; CREATE MACRO r() AS TABLE SELECT 1").await;
    let query = "SELECT routine_schema, routine_name, function_type, description
        FROM information_schema.routines WHERE routine_name IN ('m', 'r') ORDER BY routine_name";
    let answer = "public m SCALAR CREATE MACRO public.m(a, b := 1) AS a + b\n\
                  public r TABLE CREATE MACRO public.r() AS TABLE SELECT 1";
    check(&session, &[(query, answer)]).await;
    let query = "SELECT function_name, function_type FROM duckdb_functions()
        WHERE function_type LIKE '%macro' ORDER BY function_name";
    check(&session, &[(query, "m macro\nr table_macro")]).await;
}

#[tokio::test]
async fn prepared_statements_call_macros() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE MACRO m(a) AS a + 1; PREPARE p AS SELECT m($1)").await;
    check(&session, &[("EXECUTE p(4)", "5")]).await;
}

#[tokio::test]
async fn macros_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        tables(&session).await;
        show(&session, DEFINITIONS).await;
        show(&session, "CREATE MACRO \"Q m\"(\"A b\" := 'it''s') AS \"A b\" || '!'").await;
        show(&session, "CREATE TEMP MACRO gone() AS 1; DROP MACRO one").await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(&session, &CALLS[2..]).await;
    check(&session, &[("SELECT \"Q m\"()", "it's!")]).await;
    error(&session, "SELECT gone()").await;
    error(&session, "SELECT one()").await;
}

#[tokio::test]
async fn a_series_in_a_body_is_a_list() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE MACRO upto(x) AS generate_series(1, x); CREATE MACRO spread(x) AS unnest(x)";
    show(&session, made).await;
    let cases =
        [("SELECT upto(3), len(upto(4))", "[1, 2, 3] 4"), ("SELECT spread(upto(2))", "1\n2")];
    check(&session, &cases).await;
}

/// Bodies that call another function twice would double the statement with each level.
#[tokio::test]
async fn the_number_of_calls_is_bounded() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE MACRO f0(x) AS x + 1").await;
    for level in 1..=30 {
        let below = level - 1;
        let text = format!("CREATE MACRO f{level}(x) AS f{below}(x) + f{below}(x)");
        if let Err(error) = try_show(&session, &text).await {
            assert!(error.to_string().contains("too complex"), "{text}: {error}");
            break;
        }
    }
    assert_eq!(show(&session, "SELECT f10(1)").await, "2048");
    let began = Instant::now();
    let text = error(&session, "SELECT f12(1) + f12(2) + f12(3)").await;
    assert!(text.contains("a statement too complex: f12(x)"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A statement that fails has changed none of the temporary macros.
#[tokio::test]
async fn temporary_macros_change_together() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TEMP MACRO f(a, b) AS a + b; CREATE TEMP MACRO g(a) AS a").await;
    error(&session, "CREATE TEMP MACRO f(a) AS -a, (a, b) AS a - b").await;
    error(&session, "SELECT f(1)").await;
    error(&session, "DROP MACRO g, nosuch").await;
    check(&session, &[("SELECT f(1, 2), g(3)", "3 3")]).await;
}
