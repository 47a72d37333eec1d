//! Terrace and the databases that judge it.

use std::time::Duration;

use tokio_postgres::Client;

use super::base::{FRESH, PATH, PATH_OF_DUCK, TABLES_PATH, TABLES_PATH_OF_DUCK, tables};
use super::difference::{Difference, kinds};
use super::grammar::Judges;
use super::reply::Reply;
use super::terrace::Terrace;
use super::wire::ask;
use crate::error::{CheckError, Result};
use crate::fuzz::peer::Duck;
use crate::postgres::Postgres;

/// Maximum number of attempts to empty the schema of scripts, since the session of the previous
/// script may not have ended.
const ATTEMPTS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);

/// The databases.
pub struct Databases {
    terrace: Terrace,
    postgres: Postgres,
    duck: Option<Duck>,
    /// Connections to Terrace and PostgreSQL that are reused for scripts of one statement, which
    /// leave no state in a session.
    kept: Option<[Client; 2]>,
}

/// The comparisons of a script.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Number of statements that were compared, for each judge.
    pub compared: usize,
    /// Number of them that both databases refused.
    pub refused: usize,
    /// The differences.
    pub differences: Vec<Difference>,
}

impl Databases {
    /// Starts the databases and creates the tables. Without DuckDB, its scripts are left out.
    ///
    /// # Errors
    /// [`CheckError::Peer`] without PostgreSQL, [`CheckError::Engine`].
    pub async fn start() -> Result<Self> {
        let duck = Duck::start()
            .map_err(|error| eprintln!("WARNING: no DuckDB, so its scripts are left out: {error}"));
        let (terrace, postgres) = (Terrace::start().await?, Postgres::start().await?);
        let mut databases = Self { terrace, postgres, duck: duck.ok(), kept: None };
        databases.load().await?;
        Ok(databases)
    }

    /// Creates the tables anew.
    async fn load(&mut self) -> Result<()> {
        let clients = self.connect().await?;
        for client in &clients {
            must(client, TABLES_PATH).await?;
        }
        if let Some(duck) = &mut self.duck {
            duck_must(duck, TABLES_PATH_OF_DUCK)?;
        }
        for statement in tables() {
            for client in &clients {
                must(client, &statement).await?;
            }
            if let Some(duck) = &mut self.duck {
                duck_must(duck, &statement)?;
            }
        }
        Ok(())
    }

    /// Opens a connection to Terrace, and one to PostgreSQL.
    async fn connect(&self) -> Result<[Client; 2]> {
        let clients = [self.terrace.connect().await?, self.postgres.connect().await?];
        for client in &clients {
            must(client, PATH).await?;
        }
        Ok(clients)
    }

    /// Runs a script in Terrace and in each judge.
    ///
    /// # Errors
    /// If a database itself fails; a statement that it refuses is a [`Reply`].
    pub async fn verdict(&mut self, judges: Judges, statements: &[String]) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        if judges.postgres {
            self.against_postgres(statements, &mut verdict).await?;
        }
        if judges.duck {
            self.against_duck(statements, &mut verdict).await?;
        }
        // A change of a table that all scripts read is always refused.
        if verdict.differences.iter().any(|it| it.kind.starts_with("accepted")) {
            self.load().await?;
        }
        Ok(verdict)
    }

    async fn against_postgres(
        &mut self,
        statements: &[String],
        verdict: &mut Verdict,
    ) -> Result<()> {
        let is_alone = statements.len() == 1;
        let kept = if is_alone { self.kept.take() } else { None };
        let clients = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        if !is_alone {
            for client in &clients {
                empty(client).await?;
            }
        }
        let [ours, theirs] = &clients;
        for (place, statement) in statements.iter().enumerate() {
            let (ours, theirs) = tokio::join!(ask(ours, statement), ask(theirs, statement));
            if let Reply::Lost(what) = &theirs {
                return Err(CheckError::Peer(format!("PostgreSQL at {statement}: {what}")));
            }
            let is_lost = matches!(ours, Reply::Lost(_));
            let ends = verdict.add("PostgreSQL", &statements[..=place], ours, theirs);
            if is_lost {
                return Ok(());
            }
            if ends {
                break;
            }
        }
        for client in &clients {
            // A warning outside of a transaction.
            ask(client, "ROLLBACK").await;
        }
        if is_alone {
            self.kept = Some(clients);
        }
        Ok(())
    }

    async fn against_duck(&mut self, statements: &[String], verdict: &mut Verdict) -> Result<()> {
        let client = self.terrace.connect().await?;
        must(&client, PATH).await?;
        empty(&client).await?;
        let Some(duck) = &mut self.duck else { return Ok(()) };
        for statement in FRESH.into_iter().chain([PATH_OF_DUCK]) {
            duck_must(duck, statement)?;
        }
        for (place, statement) in statements.iter().enumerate() {
            let theirs =
                tokio::task::block_in_place(|| duck.reply(std::slice::from_ref(statement)));
            let theirs = Reply::of_duck(&theirs?);
            let ours = ask(&client, statement).await;
            if verdict.add("DuckDB", &statements[..=place], ours, theirs) {
                break;
            }
        }
        Ok(())
    }
}

impl Verdict {
    /// Compares the replies to the last of these statements. Returns true if later statements
    /// cannot be compared.
    fn add(
        &mut self,
        peer: &'static str,
        statements: &[String],
        ours: Reply,
        theirs: Reply,
    ) -> bool {
        let last = statements.last().map_or("", String::as_str);
        let (kinds, ends) = kinds(last, &ours, &theirs);
        self.compared += 1;
        self.refused += usize::from(kinds.is_empty() && !ours.is_success());
        let difference = |kind| Difference {
            peer,
            kind,
            statements: statements.to_vec(),
            ours: ours.clone(),
            theirs: theirs.clone(),
        };
        self.differences.extend(kinds.into_iter().map(difference));
        ends
    }
}

/// Gives a script an empty schema.
async fn empty(client: &Client) -> Result<()> {
    for statement in FRESH {
        let mut attempt = 1;
        while let Err(error) = must(client, statement).await {
            if attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

async fn must(client: &Client, statement: &str) -> Result<()> {
    match ask(client, statement).await {
        Reply::Rows(_) | Reply::Done(_) => Ok(()),
        other => Err(CheckError::Rows(format!("{statement}: {other:?}"))),
    }
}

fn duck_must(duck: &mut Duck, statement: &str) -> Result<()> {
    let reply = tokio::task::block_in_place(|| duck.reply(&[statement.to_owned()]))?;
    match reply["error"].as_str() {
        None => Ok(()),
        Some(error) => Err(CheckError::Peer(format!("DuckDB at {statement}: {error}"))),
    }
}
