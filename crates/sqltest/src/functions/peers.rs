//! DuckDB and PostgreSQL, and the functions that each has.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use super::answer::Answer;
use super::argument::Database;
use super::call::table;
use crate::error::{CheckError, Result};
use crate::fuzz::peer::Duck;
use crate::postgres::{Postgres, message};
use crate::value::Value;

/// Functions of PostgreSQL that are syntax, and have no row in `pg_proc`.
const SYNTAX: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// DuckDB and PostgreSQL, if they are installed, with the names of their functions.
pub struct Peers {
    duck: Option<(Duck, BTreeSet<String>)>,
    postgres: Option<(Postgres, BTreeSet<String>)>,
}

impl Peers {
    /// Starts the databases; prints which are missing.
    pub async fn start() -> Self {
        let warned = |name: &str, error: &CheckError| {
            eprintln!(
                "WARNING: no {name}, so answers are not compared; only panics, internal errors and \
                 differences between literals and columns are found: {error}"
            );
        };
        let duck = duck().map_err(|error| warned("DuckDB", &error)).ok();
        let postgres = postgres().await.map_err(|error| warned("PostgreSQL", &error)).ok();
        Self { duck, postgres }
    }

    /// True if one of the databases has a function of these names.
    #[must_use]
    pub fn have(&self, names: &[String]) -> bool {
        let of = |functions: Option<&BTreeSet<String>>| {
            functions.is_some_and(|functions| names.iter().any(|name| functions.contains(name)))
        };
        of(self.duck.as_ref().map(|(_, functions)| functions))
            || of(self.postgres.as_ref().map(|(_, functions)| functions))
    }

    /// True if both databases run. Answers are compared only then.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.duck.is_some() && self.postgres.is_some()
    }

    /// Returns the answers of DuckDB and PostgreSQL. `query` makes the query for one of the
    /// function's names and a database; it returns `None` if the database cannot be asked.
    ///
    /// # Errors
    /// If DuckDB's process ended.
    pub async fn ask(
        &mut self,
        names: &[String],
        query: impl Fn(&str, Database) -> Option<String>,
    ) -> Result<[Answer; 2]> {
        if !self.is_complete() {
            return Ok([Answer::Unknown, Answer::Unknown]);
        }
        let known = |names: &[String], by: &BTreeSet<String>| {
            names.iter().find(|name| by.contains(*name)).cloned()
        };
        let mut answers = [Answer::Unknown, Answer::Unknown];
        let [of_duck, of_postgres] = &mut answers;
        if let Some((duck, functions)) = &mut self.duck
            && let Some(name) = known(names, functions)
            && let Some(query) = query(&name, Database::Duck)
        {
            *of_duck = ask_duck(duck, query)?;
        }
        if let Some((postgres, functions)) = &self.postgres
            && let Some(name) = known(names, functions)
            && let Some(query) = query(&name, Database::Postgres)
        {
            let query = format!("SELECT to_json(q.x) FROM ({query}) q");
            *of_postgres = ask_postgres(postgres, &query).await;
        }
        Ok(answers)
    }
}

fn duck() -> Result<(Duck, BTreeSet<String>)> {
    let mut duck = Duck::start()?;
    let mut statements = table(Database::Duck);
    statements.push("SELECT DISTINCT function_name FROM duckdb_functions()".to_owned());
    let reply = tokio::task::block_in_place(|| duck.reply(&statements))?;
    if let Some(error) = reply["error"].as_str() {
        return Err(CheckError::Peer(error.to_owned()));
    }
    let names = values(&reply).into_iter().filter_map(|value| match value {
        Value::Text(name) => Some(name.to_lowercase()),
        _ => None,
    });
    let mut names: BTreeSet<_> = names.collect();
    names.extend(["coalesce", "nullif", "if"].map(str::to_owned));
    Ok((duck, names))
}

fn values(reply: &Json) -> Vec<Value> {
    let rows = reply["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().filter_map(|row| row.get(0)).map(Value::of_duck).collect()
}

fn ask_duck(duck: &mut Duck, query: String) -> Result<Answer> {
    const UNKNOWN: [&str; 7] = [
        "Binder Error",
        "Catalog Error",
        "Parser Error",
        "Not implemented",
        "INTERRUPT",
        "peer limit",
        "INTERNAL",
    ];
    let reply = tokio::task::block_in_place(|| duck.reply(&[query]))?;
    Ok(match reply["error"].as_str() {
        None => Answer::Values(values(&reply)),
        Some(error) if UNKNOWN.iter().any(|kind| error.starts_with(kind)) => Answer::Unknown,
        Some(error) => Answer::Refused(error.to_owned()),
    })
}

/// Returns PostgreSQL's answer to a query whose only column is JSON.
async fn ask_postgres(postgres: &Postgres, query: &str) -> Answer {
    match postgres.client().simple_query(query).await {
        Ok(messages) => Answer::Values(messages.iter().filter_map(json_value).collect()),
        Err(error) => {
            let class = error.code().map_or("", SqlState::code).get(..2).unwrap_or("");
            match class {
                // Data that the function does not take.
                "22" => Answer::Refused(message(&error)),
                _ => Answer::Unknown,
            }
        }
    }
}

fn json_value(message: &SimpleQueryMessage) -> Option<Value> {
    let SimpleQueryMessage::Row(row) = message else { return None };
    let Some(text) = row.get(0) else { return Some(Value::Null) };
    let json = serde_json::from_str::<Json>(text);
    Some(json.map_or_else(|_| Value::Text(text.to_owned()), |json| Value::of_json(&json)))
}

async fn postgres() -> Result<(Postgres, BTreeSet<String>)> {
    let postgres = Postgres::start().await?;
    for statement in table(Database::Postgres) {
        postgres.run(&statement).await?;
    }
    let names = postgres.texts("SELECT DISTINCT proname FROM pg_proc").await?;
    let mut names: BTreeSet<_> = names.into_iter().collect();
    names.extend(SYNTAX.map(str::to_owned));
    Ok((postgres, names))
}
