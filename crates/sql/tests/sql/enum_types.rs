//! Enum types, with the results that PostgreSQL 15 returns unless a test says otherwise.

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

/// Labels whose order is not that of texts.
async fn tables(session: &Session) {
    let text = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
        CREATE TYPE size AS ENUM ('small', 'large');
        CREATE TABLE p (id INT, m mood, s size DEFAULT 'small');
        INSERT INTO p VALUES (1, 'happy', 'large'), (2, 'sad', 'small'), (3, 'ok', NULL),
            (4, NULL, 'large'), (5, 'sad', 'large');
        CREATE VIEW v AS SELECT id, m AS feeling FROM p";
    show(session, text).await;
}

const ANSWERS: &[(&str, &str)] = &[
    ("SELECT m FROM p ORDER BY m, id", "sad\nsad\nok\nhappy\n"),
    ("SELECT id FROM p ORDER BY m DESC NULLS LAST, id", "1\n3\n2\n5\n4"),
    ("SELECT id FROM p WHERE m < 'happy' ORDER BY id", "2\n3\n5"),
    ("SELECT id FROM p WHERE m >= 'ok' ORDER BY id", "1\n3"),
    ("SELECT id FROM p WHERE 'ok' > m ORDER BY id", "2\n5"),
    ("SELECT id FROM p WHERE m BETWEEN 'sad' AND 'ok' ORDER BY id", "2\n3\n5"),
    ("SELECT id FROM p WHERE m = 'sad' ORDER BY id", "2\n5"),
    ("SELECT id FROM p WHERE m <> 'sad' ORDER BY id", "1\n3"),
    ("SELECT id FROM p WHERE m IN ('sad', 'happy') ORDER BY id", "1\n2\n5"),
    ("SELECT id FROM p WHERE m IS DISTINCT FROM 'sad' ORDER BY id", "1\n3\n4"),
    ("SELECT min(m), max(m), count(m), count(DISTINCT m) FROM p", "sad happy 4 3"),
    (
        "SELECT s, min(m), max(m) FROM p GROUP BY s ORDER BY s",
        "small sad sad\nlarge sad happy\n ok ok",
    ),
    ("SELECT max(m) FROM p WHERE id = 4", ""),
    ("SELECT max(m) FILTER (WHERE id <> 1) FROM p", "ok"),
    ("SELECT m, count(*) FROM p GROUP BY m ORDER BY m", "sad 2\nok 1\nhappy 1\n 1"),
    ("SELECT m FROM p GROUP BY m HAVING max(m) > 'sad' ORDER BY m", "ok\nhappy"),
    ("SELECT DISTINCT m FROM p ORDER BY m DESC", "\nhappy\nok\nsad"),
    ("SELECT max(x) FROM (SELECT max(m) AS x FROM p GROUP BY s) q WHERE x < 'happy'", "ok"),
    (
        "SELECT x FROM (SELECT m AS x FROM p UNION ALL SELECT m FROM p) q ORDER BY x LIMIT 5",
        "sad\nsad\nsad\nsad\nok",
    ),
    ("WITH c AS (SELECT m FROM p WHERE m > 'sad') SELECT * FROM c ORDER BY m", "ok\nhappy"),
    ("SELECT feeling FROM v WHERE feeling > 'sad' ORDER BY feeling", "ok\nhappy"),
    ("SELECT a.id, b.id FROM p a JOIN p b ON a.m < b.m WHERE b.id = 3 ORDER BY 1", "2 3\n5 3"),
    ("SELECT id FROM p WHERE m > (SELECT min(m) FROM p) ORDER BY id", "1\n3"),
    (
        "SELECT id FROM p o WHERE EXISTS (SELECT 1 FROM p i WHERE i.m > o.m AND i.s = o.s) \
         ORDER BY id",
        "5",
    ),
    (
        "SELECT CASE WHEN id > 2 THEN m ELSE 'happy' END AS c FROM p ORDER BY id",
        "happy\nhappy\nok\n\nsad",
    ),
    ("SELECT coalesce(m, 'ok'::mood) AS c FROM p ORDER BY c, id", "sad\nsad\nok\nok\nhappy"),
    ("SELECT id, rank() OVER (ORDER BY m) FROM p ORDER BY id", "1 4\n2 1\n3 3\n4 5\n5 1"),
    (
        "SELECT id, lag(m) OVER (ORDER BY m, id) FROM p ORDER BY id",
        "1 ok\n2 \n3 sad\n4 happy\n5 sad",
    ),
    ("SELECT string_agg(m::text, ',' ORDER BY m) FROM p", "sad,sad,ok,happy"),
    ("SELECT array_agg(m ORDER BY m) FROM p WHERE m IS NOT NULL", "[sad, sad, ok, happy]"),
    ("SELECT greatest('sad'::mood, 'ok'), least('happy'::mood, 'ok'::mood)", "ok ok"),
    (
        "SELECT 'ok'::mood < 'happy'::mood, CAST('sad' AS mood) = 'sad', NULL::mood IS NULL",
        "true true true",
    ),
    ("SELECT m::text || '!' FROM p WHERE id = 1", "happy!"),
    ("SELECT id FROM p WHERE m::text > 'ok' ORDER BY id", "2\n5"),
    (
        "SELECT CASE WHEN id > 2 THEN m ELSE 'happy' END AS c FROM p ORDER BY c",
        "sad\nok\nhappy\nhappy\n",
    ),
    ("SELECT coalesce(m, 'ok') AS c FROM p ORDER BY c", "sad\nsad\nok\nok\nhappy"),
    ("SELECT x FROM (SELECT m AS x FROM p UNION SELECT 'ok') q ORDER BY x", "sad\nok\nhappy\n"),
    ("SELECT greatest(m, 'ok') AS g FROM p ORDER BY g DESC, id", "happy\nok\nok\nok\nok"),
    ("SELECT enum_first(NULL::mood), enum_last(NULL::mood)", "sad happy"),
    ("SELECT enum_range(NULL::mood), enum_range('ok'::mood, NULL)", "[sad, ok, happy] [ok, happy]"),
    ("SELECT enum_range(NULL, 'ok'::mood), enum_range('ok'::mood, 'sad'::mood)", "[sad, ok] []"),
    ("SELECT unnest(enum_range(NULL::mood)) AS m ORDER BY m", "sad\nok\nhappy"),
    (
        "SELECT DISTINCT ON (s) s, m FROM p ORDER BY s, m DESC NULLS LAST",
        "small sad\nlarge happy\n ok",
    ),
];

#[tokio::test]
async fn values_are_ordered_as_declared() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, ANSWERS).await;
}

/// The values of SUMMARIZE are those of DuckDB 2.0, but for the type, of which it shows the labels.
#[tokio::test]
async fn summarize_shows_the_least_and_greatest_value() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    let rows = show(&session, "SUMMARIZE p").await;
    let row = rows.lines().nth(1).unwrap_or_default();
    assert!(row.starts_with("m mood sad happy 3 "), "{rows}");
}

/// `enum_code` is DuckDB's.
#[tokio::test]
async fn codes_are_places() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    check(&session, &[("SELECT enum_code(m) FROM p ORDER BY id", "2\n0\n1\n\n0")]).await;
}

#[tokio::test]
async fn invalid_values_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    for text in [
        "INSERT INTO p VALUES (6, 'glad')",
        "INSERT INTO p (m) SELECT 'glad'",
        "INSERT INTO p (m) VALUES ('')",
        "UPDATE p SET m = 'glad' WHERE id = 1",
        "SELECT 'glad'::mood",
        "SELECT CAST('Sad' AS mood)",
        "SELECT * FROM p WHERE m = 'glad'",
        "SELECT * FROM p WHERE m < 'glad'",
        "SELECT * FROM p WHERE m IN ('sad', 'glad')",
        "ALTER TABLE p ADD COLUMN x mood DEFAULT 'glad'",
        "CREATE TABLE q (m mood DEFAULT 'glad')",
        "ALTER TABLE p ALTER COLUMN m SET DEFAULT 'glad'",
        "MERGE INTO p USING (SELECT 1 AS id) s ON p.id = s.id \
         WHEN MATCHED THEN UPDATE SET m = 'glad'",
    ] {
        let found = error(&session, text).await;
        assert!(found.contains("invalid input value for enum mood: \""), "{text}: {found}");
    }
    check(&session, &[("SELECT count(*) FROM p WHERE m IS NOT NULL", "4")]).await;
    check(&session, &[("SELECT TRY_CAST('glad' AS mood) IS NULL", "true")]).await;
}

#[tokio::test]
async fn other_comparisons_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    for (text, reason) in [
        ("SELECT * FROM p WHERE m = s", "the enum size"),
        ("SELECT * FROM p WHERE m < s", "the enum size"),
        ("SELECT * FROM p WHERE m < id::text", "a text"),
        ("SELECT 1::mood", "INT"),
        ("SELECT max(m) OVER () FROM p", "max over a window"),
        ("SELECT * FROM p WHERE m < ALL (SELECT m FROM p)", "ANY or ALL"),
        ("SELECT enum_first('sad')", "of no enum"),
        ("CREATE TABLE q (m mood[][])", "array type"),
        ("CREATE TABLE q (m nosuch)", "nosuch"),
    ] {
        let found = error(&session, text).await;
        assert!(found.to_lowercase().contains(&reason.to_lowercase()), "{text}: {found}");
    }
}

#[tokio::test]
async fn labels_are_added_and_types_dropped() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, "ALTER TYPE mood ADD VALUE 'fine' BEFORE 'happy'").await;
    show(&session, "ALTER TYPE mood ADD VALUE 'glad'; ALTER TYPE mood ADD VALUE 'bad' AFTER 'sad'")
        .await;
    show(&session, "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'bad'").await;
    show(&session, "INSERT INTO p VALUES (6, 'fine'), (7, 'bad'), (8, 'glad')").await;
    let answer = "sad\nsad\nbad\nok\nfine\nhappy\nglad";
    check(&session, &[("SELECT m FROM p WHERE m IS NOT NULL ORDER BY m", answer)]).await;
    for (text, reason) in [
        ("ALTER TYPE mood ADD VALUE 'bad'", "already exists"),
        ("ALTER TYPE mood ADD VALUE 'x' AFTER 'nosuch'", "no label of mood"),
        ("ALTER TYPE nosuch ADD VALUE 'x'", "type nosuch does not exist"),
        ("ALTER TYPE mood RENAME VALUE 'nosuch' TO 'blue'", "no label of mood"),
        ("ALTER TYPE mood RENAME VALUE 'sad' TO 'happy'", "already exists"),
        ("ALTER TYPE mood RENAME TO feeling", "column m of table p depends on it"),
        ("ALTER TYPE mood OWNER TO absent", "role absent does not exist"),
        ("ALTER TYPE mood SET STORAGE", "RENAME VALUE"),
        ("CREATE TYPE mood AS ENUM ('x')", "already exists"),
        ("CREATE TYPE e AS ENUM ('x', 'x')", "twice"),
        ("CREATE TYPE e AS (a INT)", "no enum"),
        ("DROP TYPE mood", "column m of table p depends on type mood"),
        ("DROP TYPE nosuch", "type nosuch does not exist"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
    let long = format!("CREATE TYPE e AS ENUM ('{}')", "x".repeat(64));
    assert!(error(&session, &long).await.contains("at most 63 bytes"));
    show(&session, "DROP TYPE IF EXISTS nosuch; CREATE TYPE e AS ENUM (); DROP TYPE e").await;
    show(&session, "ALTER TABLE p DROP COLUMN s; DROP TYPE size").await;
    error(&session, "SELECT 'small'::size").await;
}

/// In PostgreSQL a view goes on with the label, which it has by its number.
#[tokio::test]
async fn labels_of_columns_get_another_text() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, "ALTER TYPE mood RENAME VALUE 'ok' TO 'it''s fine'").await;
    show(&session, "ALTER TYPE size RENAME VALUE 'small' TO 'tiny'").await;
    check(
        &session,
        &[
            ("SELECT m FROM p ORDER BY m, id", "sad\nsad\nit's fine\nhappy\n"),
            ("SELECT feeling FROM v WHERE feeling < 'happy' ORDER BY id", "sad\nit's fine\nsad"),
            ("SELECT s, count(*) FROM p GROUP BY s ORDER BY s", "tiny 1\nlarge 3\n 1"),
            ("INSERT INTO p (id) VALUES (9); SELECT s FROM p WHERE id = 9", "tiny"),
            ("SELECT enum_range(NULL::size)", "[tiny, large]"),
        ],
    )
    .await;
    error(&session, "INSERT INTO p (id, m) VALUES (10, 'ok')").await;
    show(&session, "BEGIN; INSERT INTO p (id, m) VALUES (10, 'sad')").await;
    show(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    check(&session, &[("SELECT count(*) FROM p WHERE m = 'blue'", "3")]).await;
    show(&session, "ROLLBACK").await;
    check(&session, &[("SELECT count(*) FROM p WHERE m = 'sad'", "2")]).await;
    show(&session, "CREATE VIEW w AS SELECT id FROM p WHERE m = 'sad'").await;
    show(&session, "ALTER TABLE p ADD CONSTRAINT c CHECK (m <> 'sad' OR id < 100)").await;
    let found = error(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    for part in ["label 'sad' of type mood", "view w", "constraint c on table p"] {
        assert!(found.contains(part), "{found}");
    }
    show(&session, "DROP VIEW w; ALTER TABLE p DROP CONSTRAINT c").await;
    show(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    check(&session, &[("SELECT count(*) FROM p WHERE m = 'blue'", "2")]).await;
}

#[tokio::test]
async fn columns_take_and_give_up_enums() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    show(&session, "CREATE TABLE c AS SELECT m, m::text AS t, max(m) AS x FROM p GROUP BY m").await;
    check(&session, &[("SELECT x FROM c ORDER BY x LIMIT 3", "sad\nok\nhappy")]).await;
    check(&session, &[("SELECT t FROM c ORDER BY t LIMIT 3", "happy\nok\nsad")]).await;
    let text = error(&session, "INSERT INTO c VALUES ('glad', '', NULL)").await;
    assert!(text.contains("enum mood"), "{text}");
    show(&session, "ALTER TABLE c ALTER COLUMN t TYPE mood USING t::mood").await;
    check(&session, &[("SELECT t FROM c ORDER BY t LIMIT 3", "sad\nok\nhappy")]).await;
    show(&session, "ALTER TABLE c ALTER COLUMN m TYPE TEXT").await;
    show(&session, "INSERT INTO c VALUES ('glad', NULL, NULL)").await;
    check(&session, &[("SELECT m FROM c ORDER BY m LIMIT 2", "glad\nhappy")]).await;
    show(&session, "CREATE TABLE k (m mood CHECK (m < 'happy')); INSERT INTO k VALUES ('ok')")
        .await;
    let text = error(&session, "INSERT INTO k VALUES ('happy')").await;
    assert!(text.contains("violates check constraint"), "{text}");
}

/// Arrays are ordered by their elements.
#[tokio::test]
async fn columns_are_arrays_of_enums() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    let text = "CREATE TABLE l (id INT, ms mood[] DEFAULT ARRAY['ok']::mood[]);
        INSERT INTO l VALUES (1, ARRAY['happy', 'sad']::mood[]), (2, '{ok,NULL}'), (3, '{}'),
            (4, NULL), (5, ARRAY['ok', 'sad']);
        INSERT INTO l (id) VALUES (6)";
    show(&session, text).await;
    check(
        &session,
        &[
            ("SELECT ms FROM l WHERE id < 4 ORDER BY id", "[happy, sad]\n[ok, ]\n[]"),
            ("SELECT id FROM l ORDER BY ms, id", "3\n6\n5\n2\n1\n4"),
            ("SELECT id FROM l WHERE ms > '{ok}' ORDER BY id", "1\n2\n5"),
            ("SELECT id FROM l WHERE ms < ARRAY['happy']::mood[] ORDER BY id", "2\n3\n5\n6"),
            ("SELECT id FROM l WHERE ms = '{ok,sad}'", "5"),
            ("SELECT id FROM l WHERE ms[1] > 'ok'", "1"),
            ("SELECT id FROM l WHERE 'sad' = ANY(ms) ORDER BY id", "1\n5"),
            (
                "SELECT id, array_length(ms, 1) FROM l WHERE array_length(ms, 1) > 1 ORDER BY id",
                "1 2\n2 2\n5 2",
            ),
            ("SELECT m FROM (SELECT unnest(ms) AS m FROM l) q ORDER BY m LIMIT 3", "sad\nsad\nok"),
            ("SELECT max(ms[1]) FROM l", "happy"),
            ("SELECT '{sad,happy}'::mood[] < '{ok}'::mood[]", "true"),
            ("SELECT TRY_CAST('{sad,glad}' AS mood[])", "[sad, ]"),
        ],
    )
    .await;
    for text in [
        "INSERT INTO l VALUES (7, '{glad}')",
        "INSERT INTO l VALUES (7, ARRAY['sad', 'glad'])",
        "UPDATE l SET ms = ARRAY['glad'] WHERE id = 1",
        "SELECT '{glad}'::mood[]",
        "SELECT * FROM l WHERE ms < '{glad}'",
    ] {
        let found = error(&session, text).await;
        assert!(found.contains("invalid input value for enum mood: \"glad\""), "{text}: {found}");
    }
    for (text, reason) in [
        ("DROP TYPE mood", "column ms of table l depends on type mood"),
        (
            "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
            "default value for column ms of table l depends on it",
        ),
        ("SELECT * FROM l WHERE ms < ARRAY['x', 'y']::size[]", "size"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(reason), "{text}: {found}");
    }
    show(&session, "CREATE TABLE c AS SELECT id, ms, array_length(ms, 1) AS n FROM l").await;
    let kinds = "SELECT data_type FROM information_schema.columns WHERE table_name = 'c'";
    assert!(!show(&session, kinds).await.is_empty());
    check(&session, &[("SELECT id FROM c ORDER BY ms, id LIMIT 2", "3\n6")]).await;
    error(&session, "INSERT INTO c VALUES (8, '{glad}', 1)").await;
    show(&session, "ALTER TYPE mood ADD VALUE 'glad' BEFORE 'ok'").await;
    show(&session, "INSERT INTO c VALUES (8, '{glad}', 1); ALTER TABLE l ADD more mood[]").await;
    check(&session, &[("SELECT id FROM c ORDER BY ms, id LIMIT 2", "3\n8")]).await;
    show(&session, "CREATE VIEW w AS SELECT id FROM l WHERE ms = '{ok,sad}'").await;
    let found = error(&session, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    assert!(found.contains("view w depends on it"), "{found}");
    show(&session, "DROP VIEW w; ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'").await;
    let renamed = "[happy, blue]\n[ok, ]\n[]\n\n[ok, blue]\n[ok]";
    check(&session, &[("SELECT ms FROM l ORDER BY id", renamed)]).await;
    check(&session, &[("SELECT id FROM p WHERE m = 'blue' ORDER BY id", "2\n5")]).await;
    show(&session, "DROP TABLE c; ALTER TABLE l DROP more, DROP ms; DROP VIEW v").await;
    show(&session, "ALTER TABLE p DROP m; DROP TYPE mood").await;
}

/// Conditions of changes, and the columns that they return.
#[tokio::test]
async fn changes_compare_in_order() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    let merge = "MERGE INTO p AS t USING (SELECT 1 AS id, 'ok'::mood AS m UNION ALL SELECT 2, 'ok')
        AS s ON t.id = s.id WHEN MATCHED AND t.m < s.m THEN UPDATE SET m = s.m
        WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)";
    show(&session, merge).await;
    check(&session, &[("SELECT id, m FROM p WHERE id < 3 ORDER BY id", "1 happy\n2 ok")]).await;
    let cases = [
        ("UPDATE p SET m = 'ok' WHERE m > 'ok' RETURNING id, m < 'happy'", "1 true"),
        ("DELETE FROM p WHERE m < 'ok' RETURNING id, m, m > 'happy'", "5 sad false"),
    ];
    check(&session, &cases).await;
}

#[tokio::test]
async fn schemas_have_their_types() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SCHEMA s; CREATE TYPE s.e AS ENUM ('b', 'a')").await;
    show(&session, "CREATE TABLE t (x s.e); INSERT INTO t VALUES ('a'), ('b')").await;
    check(&session, &[("SELECT x FROM t ORDER BY x", "b\na")]).await;
    error(&session, "SELECT 'a'::e").await;
    show(&session, "SET search_path = s, public").await;
    check(&session, &[("SELECT 'a'::e > 'b'", "true")]).await;
    let text = error(&session, "DROP SCHEMA s CASCADE").await;
    assert!(text.contains("depends on it"), "{text}");
}

#[tokio::test]
async fn changes_of_types_roll_back() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "BEGIN; CREATE TYPE e AS ENUM ('a'); CREATE TABLE t (x e)").await;
    show(&session, "INSERT INTO t VALUES ('a'); ROLLBACK").await;
    error(&session, "SELECT 'a'::e").await;
    show(&session, "CREATE TYPE e AS ENUM ('a'); BEGIN; ALTER TYPE e ADD VALUE 'b'; ROLLBACK")
        .await;
    error(&session, "SELECT 'b'::e").await;
}

#[tokio::test]
async fn functions_take_enums() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    tables(&session).await;
    let text = "CREATE FUNCTION better(a mood, b mood) RETURNS mood LANGUAGE SQL
        AS 'SELECT CASE WHEN a > b THEN a ELSE b END'";
    show(&session, text).await;
    check(&session, &[("SELECT better('sad', 'ok'), better('happy', 'ok')", "ok happy")]).await;
    let text = error(&session, "SELECT better('sad', 'glad')").await;
    assert!(text.contains("invalid input value"), "{text}");
}

#[tokio::test]
async fn enums_survive_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        tables(&session).await;
        show(&session, "CREATE TYPE \"Q t\" AS ENUM ('it''s', 'a b')").await;
        drop(session);
        engine.close().expect("closed");
    }
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    check(&session, ANSWERS).await;
    check(&session, &[("SELECT 'it''s'::\"Q t\" < 'a b'", "true")]).await;
    error(&session, "INSERT INTO p VALUES (6, 'glad')").await;
    error(&session, "DROP TYPE mood").await;
}
