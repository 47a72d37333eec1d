//! Texts of DataFusion's and Arrow's errors, without the wrappers that were added on the way.

use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::parquet::errors::ParquetError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::SqlError;

/// Maximum number of characters of a statement in an error.
const SHOWN_MAX: usize = 200;

/// The text of a DataFusion error: its cause in one sentence. Wrappers between the cause and the
/// statement (`External error`, `Arrow error`, the name of an optimizer rule) are left out.
pub(super) fn of_datafusion(error: &DataFusionError) -> String {
    match error {
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        DataFusionError::Context(what, cause) => with_context(what, of_datafusion(cause)),
        DataFusionError::Diagnostic(_, cause) => of_datafusion(cause),
        DataFusionError::Shared(cause) => of_datafusion(cause),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => of_datafusion(first),
            None => error.to_string(),
        },
        DataFusionError::External(cause) => of_any(cause.as_ref()),
        DataFusionError::Plan(text)
        | DataFusionError::Execution(text)
        | DataFusionError::Configuration(text)
        | DataFusionError::ResourcesExhausted(text) => from_signatures(text).to_owned(),
        DataFusionError::NotImplemented(text) => unsupported(text),
        DataFusionError::Internal(text) => format!("internal error: {text}"),
        DataFusionError::SchemaError(cause, _) => cause.to_string(),
        DataFusionError::IoError(cause) => cause.to_string(),
        DataFusionError::ParquetError(cause) => match cause.as_ref() {
            ParquetError::General(text) | ParquetError::EOF(text) => text.clone(),
            ParquetError::External(cause) => of_any(cause.as_ref()),
            other => other.to_string(),
        },
        DataFusionError::SQL(cause, _) => match cause.as_ref() {
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.clone(),
            cause @ ParserError::RecursionLimitExceeded => cause.to_string(),
        },
        other => other.to_string(),
    }
}

/// The text of an error for a statement or expression that DataFusion does not plan.
fn unsupported(text: &str) -> String {
    match text.strip_prefix("Unsupported SQL statement: ") {
        Some(statement) => {
            // The options of a secret are keys.
            let end = statement.to_ascii_lowercase().find("secret").unwrap_or(statement.len());
            let statement = &statement[..end];
            let shown: String = statement.chars().take(SHOWN_MAX).collect();
            let rest = if shown.len() < statement.len() { "..." } else { "" };
            format!("this kind of statement is not supported: {shown}{rest}")
        }
        None => text.to_owned(),
    }
}

/// The text of an error about the arguments of a call, without the internal errors before it, one
/// per signature of the function; or what a function says that checks its arguments itself.
fn from_signatures(text: &str) -> &str {
    let Some(place) = text.find("No function matches the given name and argument types") else {
        return text;
    };
    let own = text[..place].split_once("user-defined coercion failed with: ");
    let own = own.and_then(|(_, cause)| cause.strip_prefix("Error during planning: "));
    own.map_or(&text[place..], |cause| cause.trim_end_matches(['.', ' ']))
}

/// The text of a violated CHECK constraint, as in PostgreSQL.
pub(super) fn of_violation(table: &str, constraint: &str, is_new_row: bool) -> String {
    match is_new_row {
        true => {
            format!("new row for relation \"{table}\" violates check constraint \"{constraint}\"")
        }
        false => {
            format!(
                "check constraint \"{constraint}\" of relation \"{table}\" is violated by some row"
            )
        }
    }
}

/// The text of an Arrow error: its cause in one sentence.
pub(super) fn of_arrow(error: &ArrowError) -> String {
    match error {
        ArrowError::ExternalError(cause) => of_any(cause.as_ref()),
        ArrowError::DivideByZero => "division by zero".to_owned(),
        ArrowError::CastError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::InvalidArgumentError(text)
        | ArrowError::ArithmeticOverflow(text)
        | ArrowError::ParseError(text) => text.clone(),
        other => other.to_string(),
    }
}

fn of_any(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return of_datafusion(error);
    }
    if let Some(error) = error.downcast_ref::<ArrowError>() {
        return of_arrow(error);
    }
    if let Some(error) = error.downcast_ref::<SqlError>() {
        return error.to_string();
    }
    error.to_string()
}

/// The cause, followed by the context in parentheses unless that is the name of a planning step.
fn with_context(what: &str, cause: String) -> String {
    let is_name = !what.contains(' ') || what.starts_with("Optimizer rule");
    if is_name { cause } else { format!("{cause} ({what})") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn causes_are_said_without_wrappers() {
        let missing = SqlError::Missing { name: "public.t".to_owned() };
        let wrapped = DataFusionError::External(Box::new(missing)).context("type_coercion");
        assert_eq!(of_datafusion(&wrapped), "public.t does not exist");
        let shared = DataFusionError::Shared(Arc::new(wrapped)).context("reading a.csv");
        let arrow = ArrowError::ExternalError(Box::new(shared));
        assert_eq!(of_arrow(&arrow), "public.t does not exist (reading a.csv)");
        let parquet = ParquetError::General("cannot read a.parquet: short".to_owned());
        let parquet = DataFusionError::ParquetError(Box::new(parquet));
        assert_eq!(SqlError::from(parquet).to_string(), "cannot read a.parquet: short");
        let zero = DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None);
        assert_eq!(SqlError::from(zero).to_string(), "division by zero");
        let unsupported = |text: &str| {
            SqlError::from(DataFusionError::NotImplemented(text.to_owned())).to_string()
        };
        assert_eq!(unsupported("Temporary tables not supported"), "Temporary tables not supported");
        let text = unsupported(&format!("Unsupported SQL statement: {}", "x".repeat(1000)));
        assert!(text.starts_with("this kind of statement") && text.len() < 300, "{text}");
        let called = |cause: &str| {
            let text = format!(
                "Execution error: Function 'mode' user-defined coercion failed with: {cause}. No \
                 function matches the given name and argument types 'mode()'."
            );
            SqlError::from(DataFusionError::Plan(text)).to_string()
        };
        assert_eq!(called("Error during planning: mode takes one value"), "mode takes one value");
        assert!(called("Internal error: no").starts_with("No function matches"));
        let plan = DataFusionError::Plan("no such thing".to_owned());
        assert_eq!(SqlError::from(plan).to_string(), "no such thing");
    }
}
