//! Runs statements in Terrace and records how they ended.

use std::any::Any;
use std::panic;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use terrace_sql::{Session, SqlError};
use terrace_sys::sync::lock;

/// Timeout of a statement; one that takes longer counts as hung.
pub const HANG: Duration = Duration::from_secs(60);

/// The outcome of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// Success, with these batches; there may be none.
    Rows(Vec<RecordBatch>),
    /// An error; its message.
    Refused(String),
    /// A panic, or an error that only a defect of the engine causes; the message, for a panic with
    /// its source location.
    Panicked(String),
    /// No end within the time limit.
    Hung,
}

/// Messages of the latest 16 panics with their source locations, which a panic's payload lacks.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Installs a panic hook that records panics instead of printing them.
pub fn remember_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let text = format!("{} at {place}", message(info.payload()));
        let mut panics = lock(&PANICS);
        panics.push(text);
        if panics.len() > 16 {
            panics.remove(0);
        }
    }));
}

fn message(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a message".to_owned())
}

/// Runs the statements of a text; the rows in the outcome are those of the last statement.
pub async fn execute(session: &Arc<Session>, text: &str) -> Outcome {
    execute_within(session, text, HANG).await
}

/// Runs the statements of a text like [`execute`], within `limit`.
pub async fn execute_within(session: &Arc<Session>, text: &str, limit: Duration) -> Outcome {
    let (session, text) = (Arc::clone(session), text.to_owned());
    let mut task = tokio::spawn(async move { session.sql(&text).await });
    match tokio::time::timeout(limit, &mut task).await {
        Err(_) => {
            task.abort();
            Outcome::Hung
        }
        Ok(Err(error)) => Outcome::Panicked(panic_text(error)),
        Ok(Ok(Err(error))) => refused(&error),
        Ok(Ok(Ok(mut outputs))) => {
            Outcome::Rows(outputs.pop().map(|output| output.batches).unwrap_or_default())
        }
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "the task was cancelled".to_owned() };
    let text = message(payload.as_ref());
    let panics = lock(&PANICS);
    panics.iter().rev().find(|it| it.starts_with(&text)).cloned().unwrap_or(text)
}

/// Parts of error messages that only defects of the engine cause, such as inconsistent plans.
const DEFECTS: [&str; 6] = [
    "panic in ",
    "internal error",
    "bug in datafusion",
    "invalid comparison operation",
    "column types must match schema types",
    "input schema should be the same",
];

/// Returns the outcome of an error; a panic, if the error is a defect of the engine.
fn refused(error: &SqlError) -> Outcome {
    outcome_of(error.to_string())
}

fn outcome_of(message: String) -> Outcome {
    let plain = message.to_lowercase();
    match DEFECTS.iter().any(|defect| plain.contains(defect)) {
        true => Outcome::Panicked(message),
        false => Outcome::Refused(message),
    }
}

/// Returns the kind of an error: its message without names, numbers and texts.
#[must_use]
pub fn reason(message: &str) -> String {
    const LENGTH_MAX: usize = 88;
    let line = message.lines().next().unwrap_or_default();
    let line = line.split("Backtrace").next().unwrap_or_default();
    let mut kind = String::new();
    let mut quote = None;
    for letter in line.chars() {
        match quote {
            Some(end) if letter == end => quote = None,
            Some(_) => {}
            None if matches!(letter, '"' | '`') => {
                quote = Some(letter);
                kind.push('_');
            }
            None if letter.is_ascii_digit() => {
                if !kind.ends_with('#') {
                    kind.push('#');
                }
            }
            None if letter.is_ascii() => kind.push(letter),
            None => kind.push('?'),
        }
    }
    kind.chars().take(LENGTH_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_plans_that_do_not_fit_are_defects() {
        let refused = |message: &str| matches!(outcome_of(message.into()), Outcome::Refused(_));
        assert!(refused("column \"x\" does not exist"));
        assert!(!refused("Invalid comparison operation: Decimal128(23, 16) > Decimal128(13, 6)"));
        assert!(!refused("internal error: no such field") && !refused("Internal error: no"));
    }

    #[test]
    fn errors_of_one_kind_have_one_reason() {
        let first = reason("Schema error: No field named \"t1\".a12 at 3\nmore");
        assert_eq!(first, reason("Schema error: No field named \"t2\".a7 at 99"));
        assert_eq!(first, "Schema error: No field named _.a# at #");
    }

    #[tokio::test]
    async fn a_panic_has_a_message() {
        let task = tokio::spawn(async { panic!("the reason") });
        let error = task.await.expect_err("panicked");
        assert!(panic_text(error).contains("the reason"));
    }
}
