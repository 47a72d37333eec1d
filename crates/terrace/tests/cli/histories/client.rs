//! A client that runs one transaction after the other until its server is gone.

use std::collections::BTreeSet;
use std::time::Duration;

use terrace_testkit::Rng;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::{ACCOUNTS, Found, Shared, Work, connect};

/// The end of a transaction.
enum Ended {
    Committed,
    NotCommitted,
}

/// Runs transactions until the connection ends.
pub(super) async fn run_transactions(port: u16, shared: Shared, mut rng: Rng) {
    let Ok(client) = connect(port).await else { return };
    loop {
        let work = work(&mut rng);
        let id = {
            let mut known = shared.known();
            known.last += 1;
            known.last
        };
        let ended = match transaction(&client, &shared, &mut rng, id, &work).await {
            Ok(Ended::Committed) => shared.known().in_doubt.remove(&id).map(|_| true),
            Ok(Ended::NotCommitted) => Some(false),
            Err(error) if is_lost(&error) => return,
            Err(error) => {
                let is_conflict = error.code().is_some_and(|code| {
                    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
                        .contains(code)
                });
                assert!(is_conflict, "transaction {id}, {work:?}: {error:?}");
                shared.known().conflicts += 1;
                // An error of COMMIT means that nothing is committed.
                shared.known().in_doubt.remove(&id);
                match client.batch_execute("ROLLBACK").await {
                    Ok(()) => Some(false),
                    Err(_) => return,
                }
            }
        };
        if ended == Some(true) {
            shared.known().committed.insert(id, work);
        }
        if rng.one_in(4) {
            tokio::time::sleep(Duration::from_millis(rng.below(10))).await;
        }
    }
}

/// True if the connection ended instead of an answer of the server.
fn is_lost(error: &Error) -> bool {
    error.code().is_none()
}

fn work(rng: &mut Rng) -> Work {
    let addition = |rng: &mut Rng| {
        let amount = i64::try_from(rng.below(100)).unwrap_or(0) - 50;
        (i64::try_from(rng.below(6)).unwrap_or(0) % ACCOUNTS, amount)
    };
    let additions = (0..1 + rng.below(3)).map(|_| addition(rng)).collect();
    Work { additions, makes_table: rng.one_in(6) }
}

/// Runs the statements of one addition; some use bound parameters.
async fn add(
    client: &Client,
    rng: &mut Rng,
    id: i64,
    place: usize,
    addition: (i64, i64),
) -> Result<(), Error> {
    let (account, amount) = addition;
    let table = account % 2;
    let place = i64::try_from(place).unwrap_or(0);
    let update = format!("UPDATE account{table} SET v = v + {amount} WHERE k = {account}");
    if rng.one_in(2) {
        let insert = "INSERT INTO journal VALUES ($1, $2, $3, $4)";
        client.execute(&update, &[]).await?;
        client.execute(insert, &[&id, &place, &account, &amount]).await?;
        return Ok(());
    }
    let insert = format!("INSERT INTO journal VALUES ({id}, {place}, {account}, {amount})");
    client.batch_execute(&format!("{insert}; {update}")).await
}

async fn transaction(
    client: &Client,
    shared: &Shared,
    rng: &mut Rng,
    id: i64,
    work: &Work,
) -> Result<Ended, Error> {
    // A transaction acknowledged by now must be in the snapshot.
    let before: BTreeSet<i64> = shared.known().committed.keys().copied().collect();
    client.batch_execute("BEGIN").await?;
    for (place, addition) in work.additions.iter().enumerate() {
        if rng.one_in(5) {
            undo_some(client, rng).await?;
        }
        add(client, rng, id, place, *addition).await?;
        if rng.one_in(5) {
            let own = (id, &work.additions[..=place]);
            look(client, shared, &before, own).await?;
        }
    }
    if work.makes_table {
        client.batch_execute(&format!("CREATE TABLE made{id} AS SELECT {id} AS id")).await?;
    }
    if rng.one_in(8) {
        client.batch_execute("ROLLBACK").await?;
        return Ok(Ended::NotCommitted);
    }
    shared.known().in_doubt.insert(id, work.clone());
    client.batch_execute("COMMIT").await?;
    Ok(Ended::Committed)
}

/// Makes changes and rolls them back to a savepoint.
async fn undo_some(client: &Client, rng: &mut Rng) -> Result<(), Error> {
    let account = rng.below(6);
    let undone = format!(
        "SAVEPOINT s; UPDATE account{} SET v = v + 1000 WHERE k = {account}; INSERT INTO journal \
         VALUES (-1, 0, {account}, 1); CREATE TABLE made_undone AS SELECT 1 AS x; ROLLBACK TO s",
        account % 2
    );
    client.batch_execute(&undone).await
}

/// Reads everything in the transaction and checks it: it is complete, and has the transactions
/// acknowledged before it began, and its own changes.
async fn look(
    client: &Client,
    shared: &Shared,
    before: &BTreeSet<i64>,
    (id, own): (i64, &[(i64, i64)]),
) -> Result<(), Error> {
    let found = Found::read(client).await?;
    assert_eq!(found.unlike(), [], "transaction {id}: account, what it has, what the journal says");
    let has: BTreeSet<i64> = found.journal.keys().copied().collect();
    let missing: Vec<_> = before.difference(&has).collect();
    assert!(missing.is_empty(), "transaction {id} does not see {missing:?}, committed before it");
    assert_eq!(found.journal.get(&id).map(Vec::as_slice), Some(own), "transaction {id}: its own");
    assert_eq!(Found::read(client).await?, found, "transaction {id} reads again");
    shared.known().snapshots += 1;
    Ok(())
}
