//! The prompt, driven through a pipe.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{Home, Ran};

fn session(home: &Home, input: &str) -> Ran {
    typed(home, &["sql", "--interactive", "--dram", "64MiB"], input)
}

/// Runs the program with these arguments and this input.
pub fn typed(home: &Home, arguments: &[&str], input: &str) -> Ran {
    let mut command = home.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(input.as_bytes()).expect("write");
    drop(stdin);
    Ran::of(child.wait_with_output().expect("ended"))
}

#[test]
fn statements_take_several_lines_and_errors_do_not_end_the_session() {
    let home = Home::new();
    let ran = session(
        &home,
        "CREATE TABLE t (\n  id BIGINT NOT NULL, -- a comment; here\n  name VARCHAR\n);\n\
         SELECT nothing FROM t;\n\
         INSERT INTO t VALUES (1, 'a;b');\n\
         SELECT * FROM t;\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("error:") && ran.err.contains("nothing"), "{ran:?}");
    assert!(ran.out.contains("id  name\n--  ----\n 1  a;b\n1 row\n"), "{ran:?}");
    assert!(ran.err.contains("64MiB") && ran.err.contains("--data"), "the greeting: {ran:?}");
}

#[test]
fn commands_of_the_prompt() {
    let home = Home::new();
    let ran = session(
        &home,
        "CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_note VARCHAR);\n\
         \\d\n\\d orders\n\\d nothing\n\\timing\nSELECT 1;\n\\nonsense\nhelp\nquit\nSELECT 42;\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for line in ["public", "o_orderkey", "BIGINT", "timing is on", " s\n", "Ctrl-C"] {
        assert!(ran.out.contains(line), "{line}: {ran:?}");
    }
    assert!(ran.err.contains("there is no table nothing"), "{ran:?}");
    assert!(ran.err.contains("\\nonsense"), "{ran:?}");
    assert!(!ran.out.contains("42"), "nothing runs after quit: {ran:?}");
}

#[test]
fn what_was_typed_is_remembered() {
    let home = Home::new();
    session(&home, "SELECT 1;\nSELECT\n2;\n");
    session(&home, "SELECT 3;\n");
    let history = std::fs::read_to_string(home.path("state/terrace/history")).expect("history");
    for text in ["SELECT 1;", "2;", "SELECT 3;"] {
        assert!(history.contains(text), "{history}");
    }
}

#[test]
fn plans_print_on_their_own_lines() {
    let ran = session(&Home::new(), "EXPLAIN SELECT count(*) FROM generate_series(1, 10);\n");
    assert!(ran.out.lines().count() > 5, "{ran:?}");
    assert!(!ran.out.contains("\\n"), "{ran:?}");
}

#[test]
fn commands_in_a_pipe_and_in_files() {
    let home = Home::new();
    let (included, rows) = (home.path("more.sql"), home.path("rows.csv"));
    std::fs::write(&included, "INSERT INTO t VALUES (7, 'se\"ven');\n\\x\n").expect("write");
    let text = format!(
        "CREATE TABLE t (k BIGINT, s VARCHAR);\n\\i {}\nSELECT * FROM t; \\x\n\\d t\n\\dn\n\\l\n\
         \\copy t to '{rows}' (FORMAT csv, HEADER)\n\\copy t from '{rows}' (FORMAT csv, HEADER)\n\
         BEGIN; DELETE FROM t; ROLLBACK;\nSELECT count(*) AS n FROM t;\n\\q\nSELECT 42;\n",
        included
    );
    let ran = typed(&home, &["sql", "--dram", "64MiB"], &text);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in ["row 1\n  k  7\n  s  se\"ven\n1 row\n", "VARCHAR", "public", "in memory", "1 rows"]
    {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
    assert!(ran.out.ends_with("n\n-\n2\n1 row\n"), "nothing runs after \\q: {ran:?}");
    assert_eq!(std::fs::read_to_string(&rows).expect("rows"), "k,s\n7,\"se\"\"ven\"\n");
    for (wrong, part) in [
        ("\\nonsense", "there is no command \\nonsense"),
        ("\\d nothing", "there is no table nothing"),
        ("\\i missing.sql", "missing.sql"),
        ("\\copy t", "\\copy takes"),
    ] {
        let ran = typed(&home, &["sql", "--dram", "64MiB"], &format!("{wrong}\nSELECT 42;\n"));
        assert_eq!(ran.code, Some(1), "{wrong}: {ran:?}");
        assert!(ran.err.contains(part) && !ran.out.contains("42"), "{wrong}: {ran:?}");
    }
}
