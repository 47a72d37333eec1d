//! Sequences, and columns that take their values from them, with the answers of PostgreSQL 15.

use std::collections::BTreeSet;

use terrace_sql::Session;

use crate::common::{MIB, check, engine, engine_in, error, show};

const DRAM: u64 = 64 * MIB;

/// The numbers that a sequence gives to `count` rows.
async fn next(session: &Session, name: &str, count: u32) -> String {
    let query = format!("SELECT nextval('{name}') FROM generate_series(1, {count})");
    show(session, &query).await.replace('\n', " ")
}

#[tokio::test]
async fn sequences_count_as_their_options_say() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    for (options, numbers) in [
        ("", "1 2 3 4"),
        ("START WITH 10 INCREMENT BY 5", "10 15 20 25"),
        ("INCREMENT -2", "-1 -3 -5 -7"),
        ("MINVALUE 1 MAXVALUE 3 CYCLE", "1 2 3 1"),
        ("INCREMENT BY -1 MINVALUE 1 MAXVALUE 2 START 2 CYCLE", "2 1 2 1"),
        ("AS smallint START 32764", "32764 32765 32766 32767"),
        ("MINVALUE -2 CACHE 100", "-2 -1 0 1"),
        (
            "START 9223372036854775804",
            "9223372036854775804 9223372036854775805 \
            9223372036854775806 9223372036854775807",
        ),
    ] {
        show(&session, &format!("CREATE SEQUENCE s {options}")).await;
        assert_eq!(next(&session, "s", 4).await, numbers, "{options}");
        show(&session, "DROP SEQUENCE s").await;
    }
}

#[tokio::test]
async fn the_last_numbers_are_those_of_the_session() {
    let engine = engine(DRAM);
    let (one, other) = (engine.session().expect("session"), engine.session().expect("session"));
    show(&one, "CREATE SEQUENCE s; CREATE SEQUENCE \"S 2\" START 7").await;
    let text = error(&one, "SELECT currval('s')").await;
    assert_eq!(text, "currval of sequence \"s\" is not yet defined in this session");
    let text = error(&one, "SELECT lastval()").await;
    assert_eq!(text, "lastval is not yet defined in this session");
    check(
        &one,
        &[
            ("SELECT nextval('s')", "1"),
            ("SELECT nextval('public.s')", "2"),
            ("SELECT nextval('\"S 2\"')", "7"),
            ("SELECT currval('s'), lastval()", "2 7"),
            ("SELECT nextval('s'::regclass)", "3"),
            ("SELECT nextval(NULL)", ""),
        ],
    )
    .await;
    check(&other, &[("SELECT nextval('s')", "4"), ("SELECT currval('s')", "4")]).await;
    check(&one, &[("SELECT currval('s')", "3")]).await;
    check(
        &one,
        &[
            ("SELECT setval('s', 50)", "50"),
            ("SELECT currval('s')", "50"),
            ("SELECT nextval('s')", "51"),
            ("SELECT setval('s', 60, false)", "60"),
            ("SELECT currval('s')", "51"),
            ("SELECT nextval('s')", "60"),
        ],
    )
    .await;
}

#[tokio::test]
async fn ends_and_bounds_are_errors() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SEQUENCE s MAXVALUE 2; CREATE SEQUENCE d INCREMENT -1 MINVALUE -2")
        .await;
    assert_eq!(next(&session, "s", 2).await, "1 2");
    for (text, cause) in [
        ("SELECT nextval('s')", "nextval: reached maximum value of sequence \"s\" (2)"),
        ("SELECT setval('s', 3)", "setval: value 3 is out of bounds for sequence \"s\" (1..2)"),
        ("SELECT nextval('nothing')", "public.nothing does not exist"),
        ("CREATE SEQUENCE s", "public.s already exists"),
        ("CREATE SEQUENCE x INCREMENT 0", "INCREMENT must not be zero"),
        ("CREATE SEQUENCE x START 5 MAXVALUE 3", "START value (5) cannot be greater than MAXVALUE"),
        ("CREATE SEQUENCE x START 1 START 2", "conflicting or redundant options"),
        ("CREATE SEQUENCE x AS text", "sequence type must be smallint, integer, or bigint"),
        ("CREATE TABLE s (a INT)", "public.s already exists"),
        ("CREATE VIEW s AS SELECT 1", "public.s already exists"),
        ("DROP SEQUENCE nothing", "public.nothing does not exist"),
        ("ALTER SEQUENCE s RESTART 9", "RESTART value (9) cannot be greater than MAXVALUE (2)"),
        ("SELECT nextval(1)", "nextval takes the name of a sequence"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(cause), "{text}: {found}");
    }
    assert_eq!(next(&session, "d", 2).await, "-1 -2");
    let text = error(&session, "SELECT nextval('d')").await;
    assert_eq!(text, "nextval: reached minimum value of sequence \"d\" (-2)");
    show(&session, "CREATE SEQUENCE IF NOT EXISTS s; DROP SEQUENCE IF EXISTS nothing, s").await;
    show(&session, "CREATE TABLE s (a INT)").await;
    let text = error(&session, "DROP SEQUENCE s").await;
    assert!(text.contains("public.s, which is none"), "{text}");
}

#[tokio::test]
async fn sequences_are_altered() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SEQUENCE s; SELECT nextval('s')").await;
    show(&session, "ALTER SEQUENCE s INCREMENT BY 10").await;
    assert_eq!(next(&session, "s", 2).await, "11 21");
    show(&session, "ALTER SEQUENCE s RESTART WITH 100").await;
    assert_eq!(next(&session, "s", 2).await, "100 110");
    show(&session, "ALTER SEQUENCE s RESTART; ALTER SEQUENCE s RENAME TO r").await;
    assert_eq!(next(&session, "r", 2).await, "1 11");
    show(&session, "ALTER SEQUENCE r MAXVALUE 15 CYCLE").await;
    assert_eq!(next(&session, "r", 1).await, "1");
    let text = error(&session, "SELECT nextval('s')").await;
    assert!(text.contains("public.s does not exist"), "{text}");
}

#[tokio::test]
async fn a_rollback_gives_no_number_back() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SEQUENCE s; BEGIN; SELECT nextval('s'); ROLLBACK").await;
    assert_eq!(next(&session, "s", 1).await, "2");
    show(&session, "BEGIN; CREATE SEQUENCE r; SELECT nextval('r'), nextval('r'); COMMIT").await;
    assert_eq!(next(&session, "r", 1).await, "3");
    show(&session, "BEGIN; CREATE SEQUENCE q; SELECT nextval('q'); ROLLBACK").await;
    let text = error(&session, "SELECT nextval('q')").await;
    assert!(text.contains("public.q does not exist"), "{text}");
    show(&session, "BEGIN; ALTER SEQUENCE s RESTART WITH 90; SELECT nextval('s'); ROLLBACK").await;
    assert_eq!(next(&session, "s", 1).await, "3");
    show(&session, "BEGIN; DROP SEQUENCE s; ROLLBACK").await;
    assert_eq!(next(&session, "s", 1).await, "4");
    let text = error(&session, "BEGIN READ ONLY; SELECT nextval('s')").await;
    assert!(text.contains("READ ONLY transaction"), "{text}");
}

#[tokio::test]
async fn every_number_is_given_once() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    show(&session, "CREATE SEQUENCE s").await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move {
            let session = engine.session().expect("session");
            let mut numbers = String::new();
            for count in [1, 7, 100, 33] {
                numbers.push_str(&next(&session, "s", count).await);
                numbers.push(' ');
            }
            numbers
        }));
    }
    let mut all = BTreeSet::new();
    for task in tasks {
        let numbers = task.await.expect("numbers");
        for number in numbers.split_whitespace() {
            assert!(all.insert(number.parse::<i64>().expect("number")), "{number}");
        }
    }
    assert_eq!(all.len(), 4 * 141);
    assert_eq!((all.first(), all.last()), (Some(&1), Some(&564)));
}

#[tokio::test]
async fn serial_columns_count_their_rows() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (id SERIAL, big BIGSERIAL, small SMALLSERIAL, a TEXT);
        INSERT INTO t (a) VALUES ('x'), ('y');
        INSERT INTO t VALUES (10, DEFAULT, DEFAULT, 'z');
        INSERT INTO t (a) SELECT 'w'";
    show(&session, made).await;
    check(
        &session,
        &[
            ("SELECT * FROM t ORDER BY big", "1 1 1 x\n2 2 2 y\n10 3 3 z\n3 4 4 w"),
            (
                "SELECT arrow_typeof(id), arrow_typeof(big), arrow_typeof(small) FROM t LIMIT 1",
                "Int32 Int64 Int16",
            ),
            ("SELECT currval('t_id_seq'), lastval() > 0", "3 true"),
            ("INSERT INTO t (a) VALUES ('v') RETURNING id", "4"),
        ],
    )
    .await;
    let text = error(&session, "INSERT INTO t (id) VALUES (NULL)").await;
    assert!(text.contains("NOT NULL"), "{text}");
    let text = error(&session, "DROP SEQUENCE t_id_seq").await;
    let detail = "default value for column id of table t depends on sequence t_id_seq";
    assert!(text.contains(detail), "{text}");
    show(&session, "ALTER TABLE t DROP COLUMN small").await;
    let text = error(&session, "SELECT nextval('t_small_seq')").await;
    assert!(text.contains("does not exist"), "{text}");
    show(&session, "ALTER TABLE t RENAME TO u; DROP TABLE u").await;
    let text = error(&session, "SELECT nextval('t_id_seq')").await;
    assert!(text.contains("does not exist"), "{text}");
    show(&session, "CREATE TABLE t (id SERIAL); INSERT INTO t DEFAULT VALUES; SELECT 1").await;
    check(&session, &[("SELECT id FROM t", "1")]).await;
}

#[tokio::test]
async fn identity_columns_refuse_values() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE TABLE t (
            id INT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 2),
            n BIGINT GENERATED BY DEFAULT AS IDENTITY, a TEXT);
        INSERT INTO t (a) VALUES ('x');
        INSERT INTO t VALUES (DEFAULT, 70, 'y')";
    show(&session, made).await;
    check(&session, &[("SELECT * FROM t ORDER BY id", "5 1 x\n7 70 y")]).await;
    for text in ["INSERT INTO t VALUES (1, 2, 'z')", "INSERT INTO t (id) SELECT 1"] {
        let found = error(&session, text).await;
        let cause = "cannot insert a non-DEFAULT value into column \"id\"";
        assert!(found.contains(cause), "{text}: {found}");
    }
    let text = error(&session, "UPDATE t SET id = 1").await;
    assert_eq!(text, "column \"id\" can only be updated to DEFAULT");
    show(&session, "INSERT INTO t (id, a) OVERRIDING SYSTEM VALUE VALUES (1, 'o')").await;
    show(&session, "INSERT INTO t OVERRIDING SYSTEM VALUE SELECT 2, 3, 'p'").await;
    check(&session, &[("SELECT id FROM t WHERE a IN ('o', 'p') ORDER BY id", "1\n2")]).await;
    show(&session, "UPDATE t SET id = DEFAULT WHERE a = 'x'").await;
    check(&session, &[("SELECT id FROM t WHERE a = 'x'", "9")]).await;
    for (text, cause) in [
        ("ALTER TABLE t ALTER id SET DEFAULT 3", "column \"id\" of relation \"t\" is an identity"),
        ("CREATE TABLE u (a TEXT GENERATED ALWAYS AS IDENTITY)", "identity column type must be"),
        ("CREATE TABLE u (a INT DEFAULT 1 GENERATED ALWAYS AS IDENTITY)", "say one of them"),
        ("ALTER TABLE t ADD COLUMN s SERIAL", "with a sequence of its own is not possible"),
    ] {
        let found = error(&session, text).await;
        assert!(found.contains(cause), "{text}: {found}");
    }
}

#[tokio::test]
async fn defaults_name_their_sequence_with_its_schema() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let made = "CREATE SCHEMA other; CREATE SEQUENCE s;
        CREATE TABLE t (a INT DEFAULT nextval('s'), b INT);
        SET search_path = other; INSERT INTO public.t (b) VALUES (1), (2);
        SET search_path = public";
    show(&session, made).await;
    check(&session, &[("SELECT a, b FROM t ORDER BY b", "1 1\n2 2")]).await;
    let text = error(&session, "DROP SEQUENCE s").await;
    let detail = "default value for column a of table t depends on sequence s";
    assert!(text.contains(detail), "{text}");
    show(&session, "ALTER TABLE t ADD COLUMN c INT DEFAULT nextval('s')").await;
    check(&session, &[("SELECT count(DISTINCT c), min(c), max(c) FROM t", "2 3 4")]).await;
    let text = error(&session, "CREATE TABLE u (a INT DEFAULT nextval('nothing'))").await;
    assert!(text.contains("public.nothing does not exist"), "{text}");
    show(&session, "ALTER TABLE t ALTER a DROP DEFAULT, ALTER c DROP DEFAULT").await;
    show(&session, "DROP SEQUENCE s; DROP SCHEMA other").await;
}

#[tokio::test]
async fn sequences_take_rights() {
    let engine = engine(DRAM);
    let owner = engine.session().expect("session");
    let made = "CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'boss'; CREATE ROLE ada;
        CREATE SEQUENCE s; CREATE TABLE t (id SERIAL, a INT);
        CREATE TABLE u (id INT GENERATED ALWAYS AS IDENTITY, a INT);
        GRANT INSERT ON t TO ada; GRANT INSERT ON u TO ada";
    show(&owner, made).await;
    let ada = engine.session_of("ada").expect("session");
    for text in ["SELECT nextval('s')", "SELECT setval('s', 3)", "INSERT INTO t (a) VALUES (1)"] {
        let found = error(&ada, text).await;
        assert!(found.starts_with("permission denied for role ada: it lacks"), "{text}: {found}");
    }
    show(&ada, "INSERT INTO u (a) VALUES (1)").await;
    show(&owner, "GRANT USAGE ON SEQUENCE s, t_id_seq TO ada").await;
    show(&ada, "INSERT INTO t (a) VALUES (1)").await;
    check(&ada, &[("SELECT nextval('s')", "1"), ("SELECT currval('s')", "1")]).await;
    let text = error(&ada, "SELECT setval('s', 3)").await;
    assert!(text.contains("it lacks UPDATE on sequence public.s"), "{text}");
    let text = error(&ada, "DROP SEQUENCE s").await;
    assert!(text.contains("takes the owner"), "{text}");
    show(&owner, "ALTER SEQUENCE s OWNER TO ada").await;
    show(&ada, "DROP SEQUENCE s").await;
    let text = error(&owner, "GRANT USAGE ON SEQUENCE t TO ada").await;
    assert!(text.contains("name a sequence"), "{text}");
}

#[tokio::test]
async fn no_number_is_given_again_after_a_restart() {
    let directory = tempfile::tempdir().expect("directory");
    let made = "CREATE SEQUENCE s INCREMENT 3; CREATE SEQUENCE fresh START 8;
        CREATE TABLE t (id SERIAL, a INT); INSERT INTO t (a) VALUES (1), (2);
        COMMENT ON SEQUENCE s IS 'threes'; ALTER SEQUENCE s RENAME TO r";
    let last = {
        let engine = engine_in(directory.path(), DRAM);
        let session = engine.session().expect("session");
        show(&session, made).await;
        let numbers = next(&session, "r", 40).await;
        assert!(numbers.ends_with(" 118"), "{numbers}");
        // Numbers that another increment reserved are not those that are given.
        show(&session, "CREATE SEQUENCE q; SELECT nextval('q')").await;
        show(&session, "ALTER SEQUENCE q INCREMENT BY 2").await;
        assert!(next(&session, "q", 1).await.ends_with('3'));
        for number in 1..32 {
            assert_eq!(next(&session, "q", 1).await, (3 + 2 * number).to_string());
        }
        drop(session);
        engine.close().expect("closed");
        118
    };
    let engine = engine_in(directory.path(), DRAM);
    let session = engine.session().expect("session");
    let number: i64 = next(&session, "r", 1).await.parse().expect("number");
    assert!(number > last && number % 3 == 1, "{number}");
    let number: i64 = next(&session, "q", 1).await.parse().expect("number");
    assert!(number > 65 && number % 2 == 1, "{number}");
    check(&session, &[("SELECT nextval('fresh')", "8")]).await;
    show(&session, "INSERT INTO t (a) VALUES (3)").await;
    check(&session, &[("SELECT count(DISTINCT id), min(id) FROM t", "3 1")]).await;
}

/// A call of nextval with a constant name is no constant: results are sorted by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_sequences_are_sorted() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("a session");
    show(&session, "CREATE SEQUENCE sorted").await;
    let query = "SELECT nextval('sorted') AS n FROM generate_series(1, 3) ORDER BY n DESC";
    check(&session, &[(query, "3\n2\n1")]).await;
}

/// OWNED BY ties a sequence to a column, as SERIAL does, and OWNED BY NONE unties it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_belong_to_columns() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("a session");
    show(&session, "CREATE TABLE t (a INT, b INT); CREATE TABLE u (a SERIAL)").await;
    show(&session, "CREATE SEQUENCE s OWNED BY t.a").await;
    show(&session, "CREATE SEQUENCE r; ALTER SEQUENCE r OWNED BY public.t.b RESTART WITH 7").await;
    show(&session, "ALTER SEQUENCE r OWNED BY t.b; ALTER SEQUENCE u_a_seq OWNED BY NONE").await;
    for (text, part) in [
        ("CREATE SEQUENCE x OWNED BY t.c", "c"),
        ("CREATE SEQUENCE x OWNED BY t", "OWNED BY table.column"),
        ("CREATE SEQUENCE x OWNED BY nosuch.a", "nosuch"),
        ("CREATE SEQUENCE x OWNED BY t.a", "which owns public.s"),
        ("ALTER SEQUENCE r OWNED BY t.a", "OWNED BY NONE first"),
        ("ALTER SEQUENCE r RENAME TO q", "column b of table public.t owns"),
        ("DROP SEQUENCE r", "OWNED BY NONE first"),
    ] {
        let error = error(&session, text).await;
        assert!(error.contains(part), "{text}: {error}");
    }
    show(&session, "ALTER TABLE t DROP COLUMN a; DROP TABLE u").await;
    check(&session, &[("SELECT nextval('r'), nextval('u_a_seq')", "7 1")]).await;
    assert!(error(&session, "DROP SEQUENCE s").await.contains("public.s"));
    show(&session, "ALTER SEQUENCE r OWNED BY NONE; DROP TABLE t; DROP SEQUENCE r").await;
    // A sequence that CASCADE drops belongs to no column any more: another one of its name stays.
    show(&session, "CREATE TABLE v (a SERIAL); DROP SEQUENCE v_a_seq CASCADE").await;
    show(&session, "CREATE SEQUENCE v_a_seq; DROP TABLE v").await;
    check(&session, &[("SELECT nextval('v_a_seq'), nextval('u_a_seq')", "1 2")]).await;
}

/// Identities are added to columns, changed and dropped, as pg_dump writes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_are_added_and_dropped() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("a session");
    show(&session, "CREATE SCHEMA d; CREATE TABLE d.t (id INT NOT NULL, n INT, m INT DEFAULT 1)")
        .await;
    show(&session, "INSERT INTO d.t (id) VALUES (1)").await;
    let add = "ALTER TABLE ONLY d.t ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
        SEQUENCE NAME d.numbers START WITH 5 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1)";
    show(&session, add).await;
    let insert = "INSERT INTO d.t (n) VALUES (0) RETURNING id";
    check(&session, &[(insert, "5"), ("SELECT setval('d.numbers', 9)", "9"), (insert, "10")]).await;
    let refused = error(&session, "INSERT INTO d.t (id) VALUES (1)").await;
    assert!(refused.contains("GENERATED ALWAYS"), "{refused}");
    show(
        &session,
        "ALTER TABLE d.t ALTER id SET GENERATED BY DEFAULT SET INCREMENT BY 2 RESTART WITH 20",
    )
    .await;
    show(&session, "INSERT INTO d.t (id) VALUES (1)").await;
    check(&session, &[(insert, "20"), (insert, "22")]).await;
    for (text, part) in [
        (add, "d.numbers already exists"),
        ("ALTER TABLE d.t ALTER id ADD GENERATED ALWAYS AS IDENTITY", "already an identity column"),
        ("ALTER TABLE d.t ALTER n ADD GENERATED ALWAYS AS IDENTITY", "must be declared NOT NULL"),
        ("ALTER TABLE d.t ALTER m ADD GENERATED ALWAYS AS IDENTITY", "has a default value"),
        ("ALTER TABLE d.t ALTER x ADD GENERATED ALWAYS AS IDENTITY", "x"),
        ("ALTER TABLE d.t ALTER n SET GENERATED ALWAYS", "is not an identity column"),
        ("ALTER TABLE d.t ALTER n DROP IDENTITY", "is not an identity column"),
        ("ALTER TABLE d.t ALTER id DROP IDENTITY, ADD COLUMN c INT", "a statement of its own"),
        ("ALTER SEQUENCE d.numbers OWNED BY NONE", "ownership of identity sequence"),
        ("ALTER TABLE nosuch ALTER id DROP IDENTITY", "nosuch"),
    ] {
        let error = error(&session, text).await;
        assert!(error.contains(part), "{text}: {error}");
    }
    show(&session, "ALTER TABLE d.t ALTER n DROP IDENTITY IF EXISTS").await;
    show(&session, "ALTER TABLE IF EXISTS nosuch ALTER id DROP IDENTITY").await;
    show(&session, "BEGIN; ALTER TABLE d.t ALTER id DROP IDENTITY; ROLLBACK").await;
    check(&session, &[(insert, "24")]).await;
    show(&session, "ALTER TABLE d.t ALTER id DROP IDENTITY").await;
    assert!(error(&session, "DROP SEQUENCE d.numbers").await.contains("d.numbers"));
    let refused = error(&session, insert).await;
    assert!(refused.contains("NOT NULL"), "{refused}");
}
