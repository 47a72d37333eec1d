//! Random interleavings of eight sessions against a model of snapshot isolation.
//!
//! The model tracks all committed rows, the rows that each transaction sees, and the holder and
//! waiters of each table lock. So it predicts whether each statement runs, waits, conflicts or
//! deadlocks, and the result of each SELECT: a history has one right outcome. The exception is
//! whether small chunks were merged between a transaction's snapshot and its first change of a
//! table, after rows were added to it. Then a conflict is right, too.
//!
//! `TERRACE_SOAK_ROUNDS` sets the number of rounds of ten histories, `TERRACE_SOAK_SEED` the seed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_sql::query::Queries;
use terrace_sql::{Engine, Session, SqlError};
use terrace_testkit::{Rng, soak_rounds, with_seed};
use tokio::task::JoinHandle;

use crate::common::{MIB, engine, show};

const SESSIONS: usize = 8;
const TABLES: usize = 3;
const STEPS: usize = 60;

type Rows = BTreeMap<i64, i64>;

/// A table as of a commit.
#[derive(Clone, Default)]
struct Table {
    rows: Rows,
    commits: u64,
    rewrites: u64,
}

/// A table as seen by a transaction.
#[derive(Clone)]
struct Seen {
    base: Table,
    rows: Rows,
    added: Vec<i64>,
    is_changed: bool,
    /// True if rows of the base were updated or deleted.
    is_rewritten: bool,
}

impl Seen {
    fn of(base: &Table) -> Self {
        let (base, rows) = (base.clone(), base.rows.clone());
        Self { base, rows, added: vec![], is_changed: false, is_rewritten: false }
    }

    fn run(&mut self, change: &Change) {
        match *change {
            Change::Insert { first, count } => {
                for key in first..first + count {
                    self.rows.insert(key, 0);
                    self.added.push(key);
                }
                self.is_changed = true;
            }
            Change::Update { modulus, rest, add } => {
                for (key, value) in self.rows.iter_mut().filter(|(key, _)| *key % modulus == rest) {
                    *value += add;
                    self.is_changed = true;
                    self.is_rewritten |= self.base.rows.contains_key(key);
                }
            }
            Change::Delete { modulus, rest } => {
                let before = self.rows.len();
                let goes = |key: &i64| key % modulus == rest;
                self.is_rewritten |=
                    self.rows.keys().any(|key| goes(key) && self.base.rows.contains_key(key));
                self.rows.retain(|key, _| !goes(key));
                self.added.retain(|key| !goes(key));
                self.is_changed |= self.rows.len() < before;
            }
        }
    }

    /// Commits the rows to the current state of a table.
    fn commit(&self, table: &mut Table) {
        if !self.is_changed {
            return;
        }
        if self.is_rewritten {
            // Other transactions have at most added rows.
            let mut rows = self.rows.clone();
            let others = table.rows.iter().filter(|(key, _)| !self.base.rows.contains_key(key));
            rows.extend(others.map(|(key, value)| (*key, *value)));
            table.rows = rows;
            table.rewrites += 1;
        } else {
            table.rows.extend(self.added.iter().map(|key| (*key, self.rows[key])));
        }
        table.commits += 1;
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Insert { first: i64, count: i64 },
    Update { modulus: i64, rest: i64, add: i64 },
    Delete { modulus: i64, rest: i64 },
}

impl Change {
    fn text(self, table: usize) -> String {
        match self {
            Self::Insert { first, count } => {
                let end = first + count - 1;
                format!("INSERT INTO t{table} SELECT value, 0 FROM generate_series({first}, {end})")
            }
            Self::Update { modulus, rest, add } => {
                format!("UPDATE t{table} SET v = v + {add} WHERE k % {modulus} = {rest}")
            }
            Self::Delete { modulus, rest } => {
                format!("DELETE FROM t{table} WHERE k % {modulus} = {rest}")
            }
        }
    }

    fn is_rewrite(self) -> bool {
        !matches!(self, Self::Insert { .. })
    }
}

#[derive(Clone)]
struct Open {
    /// `None` before the first statement.
    seen: Option<Vec<Seen>>,
    statements: u64,
    is_failed: bool,
    savepoint: Option<Option<Vec<Seen>>>,
}

/// A statement that waits for a table.
struct Waiting {
    table: usize,
    change: Change,
    task: JoinHandle<Result<(), SqlError>>,
}

#[derive(Default)]
struct Lock {
    holder: usize,
    queue: VecDeque<usize>,
}

struct History {
    queries: Arc<Queries>,
    sessions: Vec<Arc<Session>>,
    tables: Vec<Table>,
    open: Vec<Option<Open>>,
    waiting: Vec<Option<Waiting>>,
    locks: BTreeMap<usize, Lock>,
    next_key: i64,
    log: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    Conflict,
    /// Done, or a conflict with a merge.
    DoneOrConflict,
}

impl History {
    async fn new(engine: &Engine) -> Self {
        let sessions: Vec<_> =
            (0..SESSIONS).map(|_| Arc::new(engine.session().expect("session"))).collect();
        for table in 0..TABLES {
            let make = format!("CREATE OR REPLACE TABLE t{table} (k BIGINT, v BIGINT)");
            sessions[0].sql(&make).await.expect("made");
        }
        let (tables, open) = (vec![Table::default(); TABLES], vec![None; SESSIONS]);
        let waiting = (0..SESSIONS).map(|_| None).collect();
        let (queries, locks) = (Arc::clone(engine.queries()), BTreeMap::new());
        Self { queries, sessions, tables, open, waiting, locks, next_key: 0, log: vec![] }
    }

    /// The steps so far, to report a failure.
    fn story(&self) -> String {
        self.log.join("\n")
    }

    async fn step(&mut self, rng: &mut Rng) {
        let who = usize::try_from(rng.below(SESSIONS as u64)).expect("small");
        if self.waiting[who].is_some() {
            return;
        }
        let table = usize::try_from(rng.below(TABLES as u64)).expect("small");
        match (rng.below(20), self.open[who].is_some()) {
            (0..=3, false) => {
                self.sql(who, "BEGIN").await.expect("begun");
                self.open[who] =
                    Some(Open { seen: None, statements: 0, is_failed: false, savepoint: None });
            }
            (0..=2, true) => self.end(who, true).await,
            (3, true) => self.end(who, false).await,
            (4, true) => self.savepoint(who, rng.below(2) == 0).await,
            (5..=9, _) => self.read(who, table).await,
            (kind, _) => {
                let (modulus, rest) = (1 + rng.below(4), rng.below(4));
                let modulus = i64::try_from(modulus).expect("small");
                let rest = i64::try_from(rest).expect("small") % modulus;
                let change = match kind {
                    10..=13 => {
                        let count = 1 + i64::try_from(rng.below(5)).expect("small");
                        let first = self.next_key;
                        self.next_key += count;
                        Change::Insert { first, count }
                    }
                    14..=17 => Change::Update { modulus, rest, add: 1 + rest },
                    _ => Change::Delete { modulus, rest },
                };
                self.change(who, table, change).await;
            }
        }
    }

    async fn sql(&mut self, who: usize, text: &str) -> Result<(), SqlError> {
        self.log.push(format!("{who}: {text}"));
        self.sessions[who].sql(text).await.map(drop)
    }

    /// Begins a statement of a session; `None` without a transaction.
    fn begin_statement(&mut self, who: usize) -> Option<&mut Open> {
        let tables = &self.tables;
        let open = self.open[who].as_mut()?;
        if !open.is_failed {
            open.statements += 1;
            open.seen.get_or_insert_with(|| tables.iter().map(Seen::of).collect());
        }
        Some(open)
    }

    async fn read(&mut self, who: usize, table: usize) {
        let text = format!("SELECT k, v FROM t{table} ORDER BY k");
        let expected = match self.begin_statement(who) {
            Some(Open { is_failed: true, .. }) => {
                let failed = self.sql(who, &text).await.expect_err("has failed");
                assert!(matches!(failed, SqlError::TransactionFailed), "{failed}");
                return;
            }
            Some(Open { seen: Some(seen), .. }) => seen[table].rows.clone(),
            _ => self.tables[table].rows.clone(),
        };
        self.log.push(format!("{who}: {text}"));
        let found = show(&self.sessions[who], &text).await;
        let expected = expected.iter().map(|(k, v)| format!("{k} {v}")).collect::<Vec<_>>();
        assert_eq!(found, expected.join("\n"), "{}", self.story());
    }

    async fn savepoint(&mut self, who: usize, is_set: bool) {
        let open = self.open[who].as_mut().expect("open");
        match (is_set, &open.savepoint) {
            (true, _) if !open.is_failed => {
                open.savepoint = Some(open.seen.clone());
                self.sql(who, "SAVEPOINT a").await.expect("set");
            }
            (false, Some(seen)) => {
                // A savepoint set before the first statement keeps that statement's snapshot.
                let begun = |seen: &Vec<Seen>| seen.iter().map(|it| Seen::of(&it.base)).collect();
                open.seen = seen.clone().or_else(|| open.seen.as_ref().map(begun));
                open.is_failed = false;
                self.sql(who, "ROLLBACK TO a").await.expect("there is one");
            }
            _ => {}
        }
    }

    async fn change(&mut self, who: usize, table: usize, change: Change) {
        let text = change.text(table);
        if let Some(Open { is_failed: true, .. }) = self.begin_statement(who) {
            let failed = self.sql(who, &text).await.expect_err("has failed");
            assert!(matches!(failed, SqlError::TransactionFailed), "{failed}");
            return;
        }
        if !change.is_rewrite() {
            self.apply(who, table, &change);
            self.sql(who, &text).await.unwrap_or_else(|error| panic!("{error}\n{}", self.story()));
            return;
        }
        match self.locks.get(&table) {
            // Single statements that resume at the same moment commit in any order.
            Some(lock) if lock.holder != who && self.open[who].is_none() => {}
            Some(lock) if lock.holder != who && self.closes_circle(who, table) => {
                let circle = self.sql(who, &text).await;
                let is_deadlock = matches!(self.cause(circle), Some(SqlError::Deadlock { .. }));
                assert!(is_deadlock, "no deadlock\n{}", self.story());
                self.fail(who).await;
            }
            Some(lock) if lock.holder != who => {
                self.locks.get_mut(&table).expect("held").queue.push_back(who);
                self.log.push(format!("{who} waits: {text}"));
                let session = Arc::clone(&self.sessions[who]);
                let task = tokio::spawn(async move { session.sql(&text).await.map(drop) });
                self.waiting[who] = Some(Waiting { table, change, task });
                self.until_it_waits(who).await;
                let waiting = self.waiting[who].as_ref().expect("it waits");
                assert!(!waiting.task.is_finished(), "it has not waited\n{}", self.story());
            }
            _ => {
                self.locks.entry(table).or_insert_with(|| Lock { holder: who, ..Lock::default() });
                let expected = self.lock(who, table);
                let result = self.sql(who, &text).await;
                self.judge(who, table, &change, expected, result).await;
                if self.open[who].is_none() {
                    self.release(who).await;
                }
            }
        }
    }

    /// Returns once the statement of a session runs, and a while later, in which it gets into the
    /// queue of its lock.
    async fn until_it_waits(&self, who: usize) {
        let number = self.sessions[who].info().number();
        let end = Instant::now() + Duration::from_secs(20);
        while !self.queries.running().iter().any(|query| query.session() == Some(number)) {
            assert!(Instant::now() < end, "{who} does not run\n{}", self.story());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    fn closes_circle(&self, who: usize, table: usize) -> bool {
        let mut next = Some(table);
        while let Some(table) = next {
            let Some(lock) = self.locks.get(&table) else { return false };
            if lock.holder == who {
                return true;
            }
            next = self.waiting[lock.holder].as_ref().map(|waiting| waiting.table);
        }
        false
    }

    /// Predicts the outcome of a statement whose session has locked the table.
    fn lock(&mut self, who: usize, table: usize) -> Outcome {
        let now = &self.tables;
        let Some(open) = &mut self.open[who] else { return Outcome::Done };
        let Some(seen) = &mut open.seen else { return Outcome::Done };
        let base = &seen[table].base;
        if now[table].commits == base.commits {
            return Outcome::Done;
        }
        if open.statements == 1 && seen.iter().all(|seen| !seen.is_changed) {
            *seen = now.iter().map(Seen::of).collect();
            return Outcome::Done;
        }
        match now[table].rewrites == base.rewrites {
            true => Outcome::DoneOrConflict,
            false => Outcome::Conflict,
        }
    }

    async fn judge(
        &mut self,
        who: usize,
        table: usize,
        change: &Change,
        expected: Outcome,
        result: Result<(), SqlError>,
    ) {
        let is_done = result.is_ok();
        let cause = self.cause(result);
        match (expected, cause) {
            (Outcome::Done | Outcome::DoneOrConflict, None) if is_done => {
                self.apply(who, table, change);
            }
            (Outcome::Conflict | Outcome::DoneOrConflict, Some(SqlError::Conflict { .. })) => {
                self.fail(who).await;
            }
            (expected, cause) => panic!("{expected:?}, not {cause:?}\n{}", self.story()),
        }
    }

    fn cause(&self, result: Result<(), SqlError>) -> Option<SqlError> {
        let error = result.err()?;
        let text = error.to_string();
        if text.contains("by another transaction") {
            return Some(SqlError::Conflict { what: text });
        }
        match text.contains("deadlock") {
            true => Some(SqlError::Deadlock { table: text }),
            false => panic!("{text}\n{}", self.story()),
        }
    }

    fn apply(&mut self, who: usize, table: usize, change: &Change) {
        match &mut self.open[who] {
            Some(Open { seen: Some(seen), .. }) => seen[table].run(change),
            _ => {
                let mut seen = Seen::of(&self.tables[table]);
                seen.run(change);
                seen.commit(&mut self.tables[table]);
            }
        }
    }

    /// Handles a failed statement. Without a savepoint the session's locks are released.
    async fn fail(&mut self, who: usize) {
        let Some(open) = &mut self.open[who] else { return };
        open.is_failed = true;
        if open.savepoint.is_none() {
            Box::pin(self.release(who)).await;
        }
    }

    async fn end(&mut self, who: usize, keeps: bool) {
        let open = self.open[who].take().expect("open");
        let text = if keeps { "COMMIT" } else { "ROLLBACK" };
        let result = self.sql(who, text).await;
        if let Some(cause) = self.cause(result) {
            panic!("{cause}\n{}", self.story());
        }
        if keeps && !open.is_failed {
            for (seen, table) in open.seen.iter().flatten().zip(&mut self.tables) {
                seen.commit(table);
            }
        }
        self.release(who).await;
    }

    /// Passes the locks of a session on, and checks the outcomes of the statements that waited.
    async fn release(&mut self, who: usize) {
        let held = self.locks.iter().filter(|(_, lock)| lock.holder == who);
        let held: Vec<usize> = held.map(|(table, _)| *table).collect();
        for table in held {
            let lock = self.locks.get_mut(&table).expect("held");
            let Some(next) = lock.queue.pop_front() else {
                self.locks.remove(&table);
                continue;
            };
            lock.holder = next;
            let Waiting { change, task, .. } = self.waiting[next].take().expect("it waits");
            let expected = self.lock(next, table);
            let result = tokio::time::timeout(Duration::from_secs(20), task).await;
            let Ok(result) = result else {
                panic!("{next} waits for ever\n{}", self.story());
            };
            self.log.push(format!("{next} goes on"));
            self.judge(next, table, &change, expected, result.expect("no panic")).await;
        }
    }

    /// Ends all transactions, and compares the remaining rows.
    async fn finish(&mut self) {
        while (0..SESSIONS).any(|who| self.open[who].is_some()) {
            for who in 0..SESSIONS {
                if self.open[who].is_some() && self.waiting[who].is_none() {
                    self.end(who, who % 2 == 0).await;
                }
            }
        }
        for table in 0..TABLES {
            self.read(0, table).await;
        }
    }
}

#[test]
fn every_history_is_that_of_the_model() {
    let rounds = soak_rounds(20);
    with_seed(|seed| {
        let runtime = tokio::runtime::Runtime::new().expect("runtime");
        runtime.block_on(async {
            let mut rng = Rng::new(seed);
            for _ in 0..rounds {
                let engine = engine(64 * MIB);
                for _ in 0..10 {
                    let mut history = History::new(&engine).await;
                    for _ in 0..STEPS {
                        history.step(&mut rng).await;
                    }
                    history.finish().await;
                }
            }
        });
    });
}
