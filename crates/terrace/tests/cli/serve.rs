//! The server, started as an operator starts it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use terrace_testkit::needs;

use crate::harness::{Home, Ran};

/// A server that has said where it listens, and the words of its command for psql.
fn start(home: &Home, data: &str) -> (Child, Vec<String>) {
    let arguments = ["serve", "--dram", "64MiB", "--data", data, "--listen", "127.0.0.1:0"];
    let mut command = home.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let (_, command) = line.trim().split_once(": ").expect("a command");
    (child, command.split_whitespace().map(str::to_owned).collect())
}

fn stop(child: Child) {
    let pid = child.id().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
    assert!(told.success());
    let ran = Ran::of(child.wait_with_output().expect("ended"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
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
fn an_address_that_others_reach_is_refused() {
    let home = Home::new();
    let open = home.run(&["serve", "--dram", "64MiB", "--listen", "0.0.0.0:0"]);
    open.refused(1, &["0.0.0.0", "without TLS", "--tls-cert", "127.0.0.1"]);
    let no_address = home.run(&["serve", "--dram", "64MiB", "--listen", "here"]);
    assert_eq!(no_address.code, Some(2), "{no_address:?}");
}
