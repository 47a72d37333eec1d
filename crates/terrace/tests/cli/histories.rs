//! Crash test of transactions: a server with eight clients is killed at random moments, repeatedly
//! on one directory; snapshots and the transactions that survive must be complete.
//!
//! A transaction adds to accounts in two tables and writes each addition to a journal; some create
//! a table. At any moment and after every kill, an account has the sum of its additions in the
//! journal. Clients check that in their snapshots, which must have their own changes and those of
//! all transactions acknowledged before. After a kill the database has the acknowledged
//! transactions, and of those whose COMMIT was in progress each in whole or not at all.
//!
//! `TERRACE_SOAK_ROUNDS` is the number of kills, `TERRACE_SOAK_SEED` repeats the random choices of
//! a run; the schedule of threads is not repeated.

mod client;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use terrace_testkit::{Rng, soak_rounds, with_seed};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use crate::harness::Home;
use client::run_transactions;

const CLIENTS: u64 = 8;
const ACCOUNTS: i64 = 6;
/// Maximum number of transactions in the journal before it is emptied.
const JOURNAL_MAX: usize = 300;
/// Maximum time in milliseconds before the server is killed.
const LIFE_MS: u64 = 400;

/// The changes of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Accounts and the amounts added to them, in the order of the statements.
    additions: Vec<(i64, i64)>,
    makes_table: bool,
}

/// Transactions by number, as known to the clients.
#[derive(Debug, Default)]
struct Known {
    committed: BTreeMap<i64, Work>,
    /// Transactions whose COMMIT was sent and not answered yet.
    in_doubt: BTreeMap<i64, Work>,
    last: i64,
    conflicts: u64,
    snapshots: u64,
}

/// Knowledge shared by all clients.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Known>>);

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn killed_servers_leave_whole_transactions() {
    with_seed(|seed| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(kill(&mut Rng::new(seed), soak_rounds(8)));
    });
}

#[expect(clippy::print_stdout, reason = "what a long run came to")]
async fn kill(rng: &mut Rng, rounds: u64) {
    let home = Home::new();
    let shared = Shared::default();
    let (mut server, mut port) = start(&home);
    make_tables(&connect(port).await.expect("a new server")).await;
    let (mut acknowledged, mut resolved) = (0, 0);
    for round in 0..rounds {
        let before = shared.known().committed.len();
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let rng = Rng::new(rng.next_u64());
            clients.spawn(run_transactions(port, shared.clone(), rng));
        }
        tokio::time::sleep(Duration::from_millis(rng.below(LIFE_MS))).await;
        server.kill().expect("running");
        server.wait().expect("ended");
        while let Some(ended) = clients.join_next().await {
            ended.unwrap_or_else(|panic| panic!("round {round}: {panic}"));
        }
        acknowledged += shared.known().committed.len() - before;
        while rng.one_in(6) {
            kill_at_start(&home, Duration::from_millis(rng.below(60)));
        }
        (server, port) = start(&home);
        let client = connect(port).await.expect("a server that has said where it listens");
        resolved += resolve(&client, &shared, round).await;
        let transactions = shared.known().committed.len();
        if transactions > JOURNAL_MAX {
            empty(&client, &shared).await;
        }
    }
    server.kill().expect("running");
    server.wait().expect("ended");
    let known = shared.known();
    println!(
        "{rounds} kills, {acknowledged} transactions acknowledged, {resolved} more found whole, \
         {} conflicts, {} snapshots: nothing lost, nothing half done",
        known.conflicts, known.snapshots
    );
    assert!(rounds < 8 || acknowledged > 0, "no server lived long enough to do anything");
}

/// Returns the command that starts a server on an empty or earlier directory.
fn serve(home: &Home) -> std::process::Command {
    let data = home.path("data");
    home.command(&["serve", "--dram", "64MiB", "--data", &data, "--listen", "127.0.0.1:0"])
}

/// Starts a server and waits until it reports its address. Returns its process and port.
fn start(home: &Home) -> (Child, u16) {
    let mut server = serve(home);
    // The server logs each conflict.
    let mut child = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let mut words = line.split_whitespace().skip_while(|word| *word != "-p");
    let port = words.nth(1).and_then(|port| port.parse().ok());
    (child, port.unwrap_or_else(|| panic!("no port in {line:?}")))
}

fn kill_at_start(home: &Home, after: Duration) {
    let mut child =
        serve(home).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
    std::thread::sleep(after);
    child.kill().expect("running");
    child.wait().expect("ended");
}

async fn connect(port: u16) -> Result<Client, tokio_postgres::Error> {
    let parameters = format!("host=127.0.0.1 port={port} user=terrace dbname=terrace");
    let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn make_tables(client: &Client) {
    let tables = "CREATE TABLE account0 AS SELECT value AS k, 0 AS v \
                  FROM generate_series(0, 5) WHERE value % 2 = 0; \
                  CREATE TABLE account1 AS SELECT value AS k, 0 AS v \
                  FROM generate_series(0, 5) WHERE value % 2 = 1; \
                  CREATE TABLE journal (id BIGINT, place BIGINT, k BIGINT, d BIGINT)";
    client.batch_execute(tables).await.expect("tables");
}

/// The contents of a snapshot of the database.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    accounts: BTreeMap<i64, i64>,
    /// Additions by the number of their transaction, in order.
    journal: BTreeMap<i64, Vec<(i64, i64)>>,
}

impl Found {
    async fn read(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let mut found = Self::default();
        for table in ["account0", "account1"] {
            let rows = client.query(&format!("SELECT k, v FROM {table}"), &[]).await?;
            found.accounts.extend(rows.iter().map(|row| (row.get::<_, i64>(0), row.get(1))));
        }
        let journal = "SELECT id, k, d FROM journal ORDER BY id, place";
        for row in client.query(journal, &[]).await? {
            found.journal.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
        }
        Ok(found)
    }

    /// Returns the accounts whose balance differs from the journal.
    fn unlike(&self) -> Vec<(i64, i64, i64)> {
        let of = |account: i64| {
            let all = self.journal.values().flatten();
            all.filter(|(k, _)| *k == account).map(|(_, d)| d).sum::<i64>()
        };
        let accounts = (0..ACCOUNTS).map(|k| (k, self.accounts[&k], of(k)));
        accounts.filter(|(_, has, journal)| has != journal).collect()
    }
}

async fn tables_made(client: &Client) -> BTreeSet<i64> {
    let text = "SELECT substr(table_name, 5)::BIGINT FROM information_schema.tables \
                WHERE table_name LIKE 'made%'";
    let rows = client.query(text, &[]).await.expect("tables");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Compares the database after a kill with the knowledge of the clients. Returns the number of
/// transactions that are present without an acknowledgement.
async fn resolve(client: &Client, shared: &Shared, round: u64) -> usize {
    let found = Found::read(client).await.expect("a server at rest");
    assert_eq!(found.unlike(), [], "round {round}: account, what it has, what the journal says");
    let (mut committed, mut in_doubt) = {
        let mut known = shared.known();
        (known.committed.clone(), std::mem::take(&mut known.in_doubt))
    };
    in_doubt.retain(|id, _| found.journal.contains_key(id));
    let resolved = in_doubt.len();
    committed.append(&mut in_doubt);
    let expected = committed.iter().map(|(id, work)| (*id, work.additions.clone()));
    assert_eq!(found.journal, expected.collect(), "round {round}: the journal, and what is known");
    let made = committed.iter().filter(|(_, work)| work.makes_table).map(|(id, _)| *id);
    assert_eq!(tables_made(client).await, made.collect(), "round {round}: tables");
    shared.known().committed = committed;
    resolved
}

/// Resets the accounts, empties the journal and drops the created tables, in one transaction.
async fn empty(client: &Client, shared: &Shared) {
    let made = shared.known().committed.clone();
    let made = made.iter().filter(|(_, work)| work.makes_table);
    let drops: String = made.map(|(id, _)| format!("DROP TABLE made{id};")).collect();
    let text = format!(
        "BEGIN; UPDATE account0 SET v = 0; UPDATE account1 SET v = 0; DELETE FROM journal; {drops} \
         COMMIT"
    );
    client.batch_execute(&text).await.expect("a server at rest");
    shared.known().committed.clear();
}
