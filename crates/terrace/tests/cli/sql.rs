//! Statements from the command line, files and pipes; formats; persistence after a restart.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Home, Ran, lines};

#[test]
fn a_table_is_aligned_and_counts_its_rows() {
    let out = Home::new().ok(&["sql", "-c", "SELECT 1 AS one, 'x' AS letter"]);
    assert_eq!(out, "one  letter\n---  ------\n  1  x\n1 row\n");
}

#[test]
fn long_results_are_cut_with_a_note_and_only_as_tables() {
    let home = Home::new();
    let statement = "SELECT value FROM generate_series(1, 1000)";
    let out = home.ok(&["sql", "--rows", "5", "-c", statement]);
    assert_eq!(out.lines().count(), 2 + 5 + 1, "{out}");
    assert!(out.ends_with("1000 rows, 5 shown\n"), "{out}");
    let out = home.ok(&["sql", "--rows", "5", "--format", "csv", "-c", statement]);
    assert_eq!(out.lines().count(), 1001, "{out}");
}

#[test]
fn formats() {
    let home = Home::new();
    let statement = "SELECT * FROM (VALUES (1, 'a,b'), (2, NULL)) AS t(id, name) ORDER BY id";
    let run = |format| home.ok(&["sql", "--format", format, "-c", statement]);
    assert_eq!(run("csv"), "id,name\n1,\"a,b\"\n2,\n");
    assert_eq!(run("json"), "[{\"id\":1,\"name\":\"a,b\"},{\"id\":2,\"name\":null}]\n");
    assert_eq!(run("ndjson"), "{\"id\":1,\"name\":\"a,b\"}\n{\"id\":2,\"name\":null}\n");
    assert_eq!(run("lines"), "1|a,b\n2|\n");
}

#[test]
fn a_plan_is_printed_whole_and_drawn_into_a_file() {
    let home = Home::new();
    let drawing = "EXPLAIN (ANALYZE, FORMAT SVG) SELECT 1 AS a UNION ALL SELECT 2";
    let out = home.ok(&["sql", "--format", "lines", "-c", drawing]);
    assert!(out.starts_with("<svg ") && out.ends_with("</svg>\n"), "{out}");
    let branches = vec!["SELECT count(*) FROM generate_series(1, 5)"; 50].join(" UNION ALL ");
    let out = home.ok(&["sql", "--rows", "5", "-c", &format!("EXPLAIN {branches}")]);
    assert!(out.matches("AGGREGATE").count() >= 50, "{out}");
}

#[test]
fn commands_run_before_files_and_both_in_order() {
    let home = Home::new();
    let file = home.write("script.sql", "-- a comment; with a semicolon\nSELECT 3 AS n;\n");
    let file = file.to_string_lossy();
    let arguments = [
        "sql",
        "--format",
        "csv",
        "-f",
        &file,
        "-c",
        "SELECT 1 AS n; SELECT ';' AS n",
        "-f",
        &file,
    ];
    assert_eq!(home.ok(&arguments), "n\n1\nn\n;\nn\n3\nn\n3\n");
}

#[test]
fn a_pipe_is_a_script() {
    let home = Home::new();
    let mut command = home.command(&["sql", "--format", "csv"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    let mut input = child.stdin.take().expect("stdin");
    input.write_all(b"CREATE TABLE t (a INT);\nINSERT INTO t VALUES (1), (2);\n").expect("write");
    input.write_all(b"SELECT sum(a) AS s FROM t").expect("write");
    drop(input);
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.out, "count\n2\ns\n3\n");
}

#[test]
fn notices_are_told_beside_the_results() {
    let home = Home::new();
    let text = "DROP TABLE IF EXISTS t; COMMIT; SELECT 1 AS one";
    let ran = home.run(&["sql", "--format", "csv", "-c", text]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "one\n1\n"), "{ran:?}");
    let told = "NOTICE:  table \"t\" does not exist, skipping\n\
                WARNING:  there is no transaction in progress\n";
    assert_eq!(ran.err, told);
    // They come before the error of a later statement.
    let ran = home.run(&["sql", "-c", "DROP VIEW IF EXISTS v; SELECT missing"]);
    ran.refused(1, &["missing"]);
    assert!(ran.err.starts_with("NOTICE:  view \"v\" does not exist, skipping\n"), "{ran:?}");
}

#[test]
fn the_first_error_ends_the_run_and_keeps_what_was_done() {
    let home = Home::new();
    let data = home.path("data");
    let ran = home.run(&[
        "sql",
        "--data",
        &data,
        "-c",
        "CREATE TABLE t AS SELECT 1 AS a; SELECT missing FROM t; DROP TABLE t",
    ]);
    ran.refused(1, &["missing"]);
    assert_eq!(home.rows("SELECT a FROM t")[0]["a"], 1);
}

#[test]
fn tables_stay_after_a_restart() {
    let home = Home::new();
    home.rows("CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR)");
    let rows =
        home.rows("INSERT INTO t SELECT value, 'n' || value FROM generate_series(1, 200000)");
    assert_eq!(rows[0]["count"], 200_000);
    home.rows("CREATE TABLE u AS SELECT id % 10 AS digit, count(*) AS n FROM t GROUP BY 1");
    let rows = home.rows("SELECT count(*) AS n, sum(id) AS s, max(name) AS m FROM t");
    assert_eq!(rows[0]["n"], 200_000);
    assert_eq!(rows[0]["s"], 200_000_u64 * 200_001 / 2);
    assert_eq!(rows[0]["m"], "n99999");
    assert_eq!(home.rows("SELECT sum(n) AS n FROM u")[0]["n"], 200_000);
}

#[test]
fn files_come_in_and_go_out() {
    let home = Home::new();
    let (parquet, csv) = (home.path("t.parquet"), home.path("t.csv"));
    home.rows(&format!(
        "CREATE TABLE t AS SELECT value AS id, 'n' || value AS name FROM generate_series(1, 1000);
         COPY t TO '{parquet}';
         COPY t TO '{csv}' STORED AS CSV OPTIONS ('format.has_header' 'true')"
    ));
    home.rows(&format!(
        "CREATE TABLE p AS SELECT * FROM '{parquet}'; CREATE TABLE c AS SELECT * FROM '{csv}'"
    ));
    for table in ["p", "c"] {
        let rows = home.rows(&format!("SELECT sum(id) AS s, count(name) AS n FROM {table}"));
        assert_eq!((rows[0]["s"].as_i64(), rows[0]["n"].as_i64()), (Some(500_500), Some(1000)));
    }
}

#[test]
fn a_missing_file_of_data_is_named() {
    let ran = Home::new().run(&["sql", "-c", "CREATE TABLE t AS SELECT * FROM '/no/such.parquet'"]);
    ran.refused(1, &["/no/such.parquet"]);
}

#[test]
fn an_interrupted_statement_ends_the_run_and_harms_nothing() {
    let home = Home::new();
    home.rows("CREATE TABLE t AS SELECT value AS id FROM generate_series(1, 1000)");
    let data = home.path("data");
    let long = "INSERT INTO t SELECT a.id FROM t a, t b, t c, t d";
    let mut command = home.command(&["sql", "--dram", "64MiB", "--data", &data, "-c", long]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    let signal = Command::new("kill").args(["-INT", &pid]).status().expect("kill");
    assert!(signal.success());
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    ran.refused(130, &["interrupted"]);
    assert_eq!(home.rows("SELECT count(*) AS n FROM t")[0]["n"], 1000);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let home = Home::new();
    let program = env!("CARGO_BIN_EXE_terrace");
    let script = format!(
        "{program} sql --format csv -c 'SELECT value FROM generate_series(1, 10000000)' | head -3; \
         exit ${{PIPESTATUS[0]}}"
    );
    let mut command = home.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = Command::new("bash");
    command.args(["-c", &script]);
    for (name, value) in environment {
        command.env(name, value.expect("set"));
    }
    let ran = Ran::of(command.output().expect("started"));
    assert_eq!(ran.out, "value\n1\n2\n", "{ran:?}");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_closed_pipe_ends_a_script_and_says_what_did_not_run() {
    let home = Home::new();
    let data = home.path("data");
    let script = home.write(
        "script.sql",
        "CREATE TABLE t (x BIGINT);\nSELECT * FROM generate_series(1, 3000000);\n\
         INSERT INTO t VALUES (1);",
    );
    let script = script.to_str().expect("text");
    let arguments = ["sql", "--dram", "64MiB", "--data", &data, "--format", "csv", "-f", script];
    let mut command = home.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    ran.refused(141, &["1 more statement"]);
    assert_eq!(home.rows("SELECT count(*) AS n FROM t")[0]["n"], 0);
}

#[test]
fn a_join_without_keys_is_interrupted_too() {
    let home = Home::new();
    home.rows("CREATE TABLE t AS SELECT value AS id FROM generate_series(1, 1000000)");
    let data = home.path("data");
    let long = "SELECT count(*) FROM t a, t b, t c WHERE a.id + b.id + c.id = 0";
    interrupted(&home, &["sql", "--dram", "64MiB", "--data", &data, "-c", long]);
}

#[test]
fn a_recursion_without_an_end_is_interrupted_too() {
    let endless = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) \
                   SELECT count(*) FROM t";
    interrupted(&Home::new(), &["sql", "--dram", "64MiB", "-c", endless]);
}

/// Interrupts a run after a second; it must end soon.
fn interrupted(home: &Home, arguments: &[&str]) {
    let mut command = home.command(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    std::thread::sleep(Duration::from_secs(1));
    let interrupted = Instant::now();
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    Ran::of(child.wait_with_output().expect("ended")).refused(130, &["interrupted"]);
    assert!(interrupted.elapsed() < Duration::from_secs(5), "{:?}", interrupted.elapsed());
}

/// Returns the log, one line per message.
fn log(home: &Home) -> String {
    std::fs::read_to_string(home.path("state/terrace/log")).unwrap_or_default()
}

#[test]
fn warnings_go_to_the_log_and_the_terminal_is_the_users() {
    let home = Home::new();
    let shm = std::path::Path::new("/dev/shm");
    let directory = tempfile::tempdir_in(shm).expect("writable wherever Linux runs");
    let data = directory.path().join("data");
    std::fs::create_dir(&data).expect("made");
    let data = data.to_str().expect("text");
    let warns = |text: &str| text.contains("file system in memory") && text.contains("TMPDIR");
    let arguments = ["sql", "--dram", "64MiB", "--data", data, "-c", "SELECT 1 AS n"];
    let ran = home.run(&arguments);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.out, "n\n-\n1\n1 row\n");
    let logged = log(&home);
    assert!(warns(&logged) && logged.contains("WARN") && logged.lines().count() == 1, "{logged}");
    let ran = home.run(&[&["-v"][..], &arguments].concat());
    assert!(ran.code == Some(0) && warns(&ran.err) && ran.out.ends_with("1 row\n"), "{ran:?}");
    assert_eq!(log(&home), logged, "said on the terminal, not in the log");
    let ran = home.run(&[&["sql", "--interactive"], &arguments[1..5]].concat());
    assert!(ran.code == Some(0) && warns(&ran.err), "the greeting: {ran:?}");
}

/// Joins with rows as long as frames of a small pool make the pool owe frames and log a warning.
#[test]
fn warnings_of_the_pool_are_not_on_the_terminal() {
    let home = Home::new();
    let statement = "CREATE TABLE t AS SELECT value AS k, repeat('x', 1500000) AS s \
                     FROM generate_series(1, 24); \
                     SELECT count(*) AS n, sum(length(a.s || b.s)) AS l \
                     FROM t a JOIN t b USING (k)";
    let ran = home.run(&["sql", "--dram", "32MiB", "--format", "csv", "-c", statement]);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.out.ends_with("n,l\n24,72000000\n"), "{ran:?}");
}

#[test]
fn json_has_floats_that_are_no_numbers_as_strings() {
    let sql = "SELECT CAST(f AS DOUBLE) AS d, CAST(f AS REAL) AS r, [CAST(f AS DOUBLE), 0.5] AS l, \
               named_struct('s', CAST(f AS DOUBLE)) AS n \
               FROM (VALUES (1, 'NaN'), (2, 'Infinity'), (3, '-Infinity'), (4, '1.5'), (5, NULL)) \
               AS t(i, f) ORDER BY i";
    let run = |format| Home::new().ok(&["sql", "--format", format, "-c", sql]);
    let text = run("json");
    let rows: Value = serde_json::from_str(&text).expect(&text);
    let values = ["\"NaN\"", "\"Infinity\"", "\"-Infinity\"", "1.5", "null"];
    for (row, value) in values.iter().enumerate() {
        let expected: Value = serde_json::from_str(value).expect("JSON");
        let row = &rows[row];
        for found in [&row["d"], &row["r"], &row["l"][0], &row["n"]["s"]] {
            assert_eq!(found, &expected, "{text}");
        }
        assert_eq!(row["l"][1], 0.5, "{text}");
    }
    assert_eq!(rows.as_array(), Some(&lines(&run("ndjson"))));
}
