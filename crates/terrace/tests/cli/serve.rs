//! Tests of the server, started as an operator starts it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use terrace_testkit::needs;

use crate::harness::{Home, Ran, lines};

/// Starts a server and waits until it reports its address. Returns the psql command it printed.
fn start(home: &Home, data: &str) -> (Child, Vec<String>) {
    start_with(home, data, &[])
}

/// Starts a server with further options.
fn start_with(home: &Home, data: &str, options: &[&str]) -> (Child, Vec<String>) {
    let arguments = ["serve", "--dram", "64MiB", "--data", data, "--listen", "127.0.0.1:0"];
    let mut command = home.command(&[&arguments, options].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let (_, command) = line.trim().split_once(": ").expect("a command");
    (child, command.split_whitespace().map(str::to_owned).collect())
}

fn stop(child: Child) {
    // The server may not have noticed yet that a client has left when it is told to end.
    let log = logged(child);
    let lines = log.lines().filter(|line| !line.contains("state=\"57P01\""));
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
}

/// Stops a server and returns its log.
fn logged(child: Child) -> String {
    let pid = child.id().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
    assert!(told.success());
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.err
}

/// Runs statements by psql, each on its own, whether they succeed or fail.
fn ask_each(command: &[String], texts: &[&str]) {
    let texts = texts.iter().flat_map(|text| ["-c", text]);
    let output = Command::new("psql").args(&command[1..]).arg("-XAt").args(texts).output();
    output.expect("psql runs");
}

#[test]
fn a_server_keeps_what_clients_have_changed() {
    let psql = Command::new("psql").arg("--version").output();
    if needs::or_skip("psql", psql.map_err(|error| error.to_string())).is_none() {
        return;
    }
    let home = Home::new();
    let data = home.path("data");
    let (server, command) = start(&home, &data);
    assert_eq!(command[0], "psql");
    let ask = |command: &[String], text: &str| {
        let output = Command::new("psql").args(&command[1..]).args(["-XAtc", text]).output();
        let ran = Ran::of(output.expect("psql runs"));
        assert_eq!(ran.err, "", "{text}");
        ran.out
    };
    ask(&command, "CREATE TABLE t AS SELECT value AS k FROM generate_series(1, 1000)");
    assert_eq!(ask(&command, "SELECT sum(k) FROM t"), "500500\n");
    stop(server);
    let (server, command) = start(&home, &data);
    assert_eq!(
        ask(&command, "DELETE FROM t WHERE k > 10; SELECT sum(k) FROM t"),
        "DELETE 990\n55\n"
    );
    stop(server);
    assert_eq!(home.rows("SELECT count(*) AS n FROM t")[0]["n"], 10);
}

#[test]
fn statements_are_logged_with_their_requests() {
    let psql = Command::new("psql").arg("--version").output();
    if needs::or_skip("psql", psql.map_err(|error| error.to_string())).is_none() {
        return;
    }
    let home = Home::new();
    let statements = [
        "SELECT 1 AS first",
        "SELECT * FROM missing",
        "CREATE ROLE r PASSWORD 'secret' ERROR",
        "SELECT count(*) FROM generate_series(1, 1000)",
    ];
    let options = ["--log-format", "json", "--log-statements", "0"];
    let (server, command) = start_with(&home, &home.path("data"), &options);
    ask_each(&command, &statements);
    let log = lines(&logged(server));
    assert_eq!(log.len(), 4, "{log:?}");
    for (index, (line, statement)) in log.iter().zip(statements).enumerate() {
        assert_eq!(line["request"], format!("1-{}", index + 1), "{line}");
        assert_eq!((&line["level"], &line["user"]), (&"INFO".into(), &log[0]["user"]), "{line}");
        assert!(line["seconds"].as_f64().is_some_and(|seconds| seconds < 60.0), "{line}");
        assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
        let shown = line["statement"].as_str().expect("a text");
        assert_eq!(shown == statement, !statement.contains("PASSWORD"), "{line}");
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    let ended = |line: usize| log[line]["message"] == "a statement has ended";
    assert_eq!([0, 1, 2, 3].map(ended), [true, false, false, true]);
    assert_eq!(log[1]["state"], "42P01");
    assert!(log[1]["error"].as_str().is_some_and(|error| error.contains("missing")), "{log:?}");
    // By default failed statements are logged, as text.
    let (server, command) = start(&home, &home.path("data"));
    ask_each(&command, &statements);
    let log = logged(server);
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("INFO") && log.contains("request=\"1-2\""), "{log}");
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let home = Home::new();
    let open = home.run(&["serve", "--dram", "64MiB", "--listen", "0.0.0.0:0"]);
    open.refused(1, &["0.0.0.0", "without TLS", "--tls-cert", "127.0.0.1"]);
    let no_address = home.run(&["serve", "--dram", "64MiB", "--listen", "here"]);
    assert_eq!(no_address.code, Some(2), "{no_address:?}");
}
