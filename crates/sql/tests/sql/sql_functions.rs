//! Functions in SQL, with the results that PostgreSQL 15 returns.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

async fn tables(session: &Session) {
    let text = "CREATE TABLE t (k INT, v INT, n TEXT);
        INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (2, 25, 'b'), (NULL, 30, NULL);
        CREATE TABLE u (k INT, w INT);
        INSERT INTO u VALUES (1, 100), (2, 200), (3, 300)";
    show(session, text).await;
}

const DEFINITIONS: &str = "CREATE FUNCTION inc(i int) RETURNS int LANGUAGE SQL IMMUTABLE
        AS $$ SELECT i + 1 $$;
    CREATE FUNCTION area(a int, b int DEFAULT 10) RETURNS int RETURN a * b;
    CREATE FUNCTION area(a int, b int, c int) RETURNS bigint LANGUAGE SQL AS 'SELECT $1 * $2 * $3';
    CREATE FUNCTION label(text, suffix text DEFAULT '!') RETURNS text LANGUAGE sql STABLE
        AS $body$ SELECT $1 || suffix; $body$;
    CREATE FUNCTION strict_or(a int, b int) RETURNS text LANGUAGE SQL STRICT
        AS $$ SELECT coalesce(a, 0)::text || coalesce(b, 0)::text $$;
    CREATE FUNCTION best(key int) RETURNS int LANGUAGE SQL STABLE
        AS $$ SELECT max(v) FROM t WHERE k = key $$;
    CREATE FUNCTION least_v(key int) RETURNS int LANGUAGE SQL
        AS $$ SELECT v FROM t WHERE k = key ORDER BY v $$;
    CREATE FUNCTION of_column(v int) RETURNS bigint LANGUAGE SQL
        AS $$ SELECT count(*) FROM t WHERE v = v $$;
    CREATE FUNCTION qualified(v int) RETURNS bigint LANGUAGE SQL
        AS $$ SELECT count(*) FROM t WHERE t.v = qualified.v $$;
    CREATE FUNCTION above(x int) RETURNS TABLE(key int, double_v bigint) LANGUAGE SQL
        AS $$ SELECT k, v * 2 FROM t WHERE v > x $$;
    CREATE FUNCTION all_t() RETURNS SETOF t LANGUAGE SQL AS 'SELECT * FROM t';
    CREATE FUNCTION numbers(n int) RETURNS SETOF int LANGUAGE SQL
        AS $$ SELECT * FROM generate_series(1, n) $$;
    CREATE FUNCTION twice(i int) RETURNS int LANGUAGE SQL AS 'SELECT inc(inc(i)) - i + i'";

const CALLS: &[(&str, &str)] = &[
    ("SELECT inc(1), inc(inc(1)), inc(NULL)", "2 3 "),
    ("SELECT inc('41')", "42"),
    ("SELECT area(2), area(2, 3), area(2, 3, 4)", "20 6 24"),
    ("SELECT area(b => 2, a => 5), area(5, b => 3), area(a := 1)", "10 15 10"),
    ("SELECT label('x'), label('x', '?'), label('x', suffix => '.')", "x! x? x."),
    ("SELECT strict_or(1, 2), strict_or(NULL, 2) IS NULL", "12 true"),
    ("SELECT best(2), best(7)", "25 "),
    ("SELECT w, best(k) FROM u ORDER BY w", "100 10\n200 25\n300 "),
    ("SELECT w, best(u.k - 1) FROM u ORDER BY w", "100 \n200 10\n300 25"),
    ("SELECT least_v(2)", "20"),
    ("SELECT of_column(1), qualified(25)", "4 1"),
    ("SELECT * FROM above(15) ORDER BY double_v", "2 40\n2 50\n 60"),
    ("SELECT a.double_v FROM above(24) AS a WHERE a.key = 2", "50"),
    ("SELECT x FROM above(29) AS a(y, x)", "60"),
    ("SELECT k, n FROM all_t() ORDER BY v", "1 a\n2 b\n2 b\n "),
    ("SELECT * FROM numbers(3)", "1\n2\n3"),
    ("SELECT numbers FROM numbers(1)", "1"),
    ("SELECT * FROM inc(4)", "5"),
    ("SELECT x FROM inc(4) AS x", "5"),
    ("SELECT twice(4)", "6"),
    ("SELECT inc(v) FROM t WHERE inc(v) > 21 ORDER BY inc(v)", "26\n31"),
    ("SELECT sum(inc(v)), count(*) FROM t GROUP BY inc(k) ORDER BY 1", "11 1\n31 1\n47 2"),
    ("UPDATE u SET w = inc(w) WHERE k = inc(0); SELECT w FROM u ORDER BY k", "101\n200\n300"),
];

#[tokio::test]
async fn functions_return_what_their_queries_do() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    check(&session, CALLS).await;
}

#[tokio::test]
async fn functions_name_their_columns() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    show(&session, "CREATE TABLE r AS SELECT inc(1), area(1) AS b FROM above(0)").await;
    check(&session, &[("SELECT inc, b FROM r LIMIT 1", "2 10")]).await;
}

#[tokio::test]
async fn wrong_definitions_and_calls_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    for (text, reason) in [
        ("CREATE FUNCTION inc(j int) RETURNS int RETURN j", "already exists"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN END $$", "LANGUAGE plpgsql"),
        ("CREATE FUNCTION f() RETURNS int AS 'SELECT 1'", "without a language"),
        ("CREATE FUNCTION f() LANGUAGE SQL AS 'SELECT 1'", "RETURNS"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL", "a body"),
        ("CREATE FUNCTION f() RETURNS void LANGUAGE SQL AS 'SELECT 1'", "returns void"),
        ("CREATE FUNCTION f() RETURNS record LANGUAGE SQL AS 'SELECT 1'", "RETURNS TABLE"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS 'DELETE FROM t'", "a body is a query"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS 'SELECT 1; SELECT 2'", "one query"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS 'SELECT x FROM t'", "x"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS 'SELECT 1 FROM nosuch'", "nosuch"),
        ("CREATE FUNCTION f(int) RETURNS int LANGUAGE SQL AS 'SELECT $2'", "$2"),
        ("CREATE FUNCTION f(i int) RETURNS int LANGUAGE SQL AS 'SELECT f(i - 1)'", "recursion"),
        ("CREATE FUNCTION f(OUT i int) RETURNS int LANGUAGE SQL AS 'SELECT 1'", "OUT"),
        (
            "CREATE FUNCTION f() RETURNS int LANGUAGE SQL SECURITY DEFINER AS 'SELECT 1'",
            "SECURITY DEFINER",
        ),
        ("CREATE OR REPLACE FUNCTION inc(i int) RETURNS text RETURN 'x'", "returns INT"),
        ("SELECT inc()", "there is inc(i INT)"),
        ("SELECT area(2, a => 3)", "there is area"),
        ("SELECT inc('x')", "'x'"),
        ("SELECT above(1)", "returns rows"),
        ("DROP FUNCTION area", "function name area is not unique"),
        ("DROP FUNCTION area(int)", "does not exist"),
        ("DROP FUNCTION nosuch", "function nosuch does not exist"),
    ] {
        let found = error(&session, text).await;
        assert!(found.to_lowercase().contains(&reason.to_lowercase()), "{text}: {found}");
    }
    let text = "CREATE FUNCTION sum_of(x double precision) RETURNS double precision LANGUAGE SQL
        AS 'SELECT x + x'";
    show(&session, text).await;
    let text = error(&session, "SELECT sum_of(random())").await;
    assert!(text.contains("uses twice"), "{text}");
}

#[tokio::test]
async fn functions_are_replaced_and_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    show(&session, "CREATE OR REPLACE FUNCTION inc(i int) RETURNS int RETURN i + 100").await;
    check(&session, &[("SELECT inc(1), twice(1)", "101 201")]).await;
    show(&session, "DROP FUNCTION area(int, int, int)").await;
    error(&session, "SELECT area(1, 2, 3)").await;
    show(&session, "DROP FUNCTION area; DROP FUNCTION IF EXISTS area, nosuch").await;
    error(&session, "SELECT area(1)").await;
}

#[tokio::test]
async fn tables_are_read_with_the_rights_of_the_caller() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    tables(&owner).await;
    show(&owner, "CREATE ROLE admin SUPERUSER LOGIN PASSWORD 'a'; CREATE ROLE ada LOGIN").await;
    show(&owner, DEFINITIONS).await;
    let ada = engine.session_of("ada").expect("session");
    check(&ada, &[("SELECT inc(1)", "2")]).await;
    let text = error(&ada, "SELECT best(1)").await;
    assert!(text.contains("SELECT on public.t"), "{text}");
    show(&owner, "GRANT SELECT ON t TO ada").await;
    check(&ada, &[("SELECT best(1)", "10")]).await;
    for text in [
        "CREATE OR REPLACE FUNCTION inc(i int) RETURNS int RETURN i",
        "DROP FUNCTION inc",
        "CREATE FUNCTION mine() RETURNS int RETURN 1",
    ] {
        let found = error(&ada, text).await;
        assert!(found.contains("permission denied"), "{text}: {found}");
    }
    show(&owner, "GRANT CREATE ON SCHEMA public TO ada").await;
    show(&ada, "CREATE FUNCTION mine() RETURNS int RETURN 1; DROP FUNCTION mine()").await;
    show(&owner, "CREATE SCHEMA s; CREATE FUNCTION s.f() RETURNS int RETURN 1").await;
    let text = error(&ada, "SELECT s.f()").await;
    assert!(text.contains("USAGE"), "{text}");
}

#[tokio::test]
async fn a_table_of_a_function_may_be_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, DEFINITIONS).await;
    let text = error(&session, "DROP TABLE t").await;
    assert!(text.contains("function all_t() depends on table t"), "{text}");
    show(&session, "DROP FUNCTION all_t; DROP TABLE t").await;
    let text = error(&session, "SELECT best(1)").await;
    assert!(text.contains('t'), "{text}");
    show(&session, "CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 7)").await;
    check(&session, &[("SELECT best(1)", "7")]).await;
}

#[tokio::test]
async fn functions_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        tables(&session).await;
        show(&session, DEFINITIONS).await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(&session, CALLS).await;
}
