//! A connection to a server by PostgreSQL's protocol.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::reply::{Reply, Table};
use crate::postgres::message;
use crate::value::Value;

/// Time limit of a statement: the tables have a few rows.
const LIMIT: Duration = Duration::from_secs(10);

/// Beginnings of statements whose columns are described before they run.
const DESCRIBED: [&str; 8] =
    ["SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "("];

/// Runs a statement.
pub async fn ask(client: &Client, statement: &str) -> Reply {
    match tokio::time::timeout(LIMIT, client.simple_query(statement)).await {
        Err(_) => Reply::Lost(format!("none within {LIMIT:?}")),
        Ok(Err(error)) => match error.code().map(SqlState::code) {
            Some(state) => Reply::Refused { state: state.to_owned(), message: message(&error) },
            None => Reply::Lost(error.to_string()),
        },
        Ok(Ok(messages)) => read(client, statement, &messages).await,
    }
}

async fn read(client: &Client, statement: &str, messages: &[SimpleQueryMessage]) -> Reply {
    let mut count = 0;
    let mut rows = Vec::new();
    let mut has_rows = false;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => has_rows = true,
            SimpleQueryMessage::Row(row) => rows.push(row),
            SimpleQueryMessage::CommandComplete(changed) => count = *changed,
            _ => {}
        }
    }
    if !has_rows {
        return Reply::Done(count);
    }
    let types = types(client, statement).await;
    let cells = |row: &&tokio_postgres::SimpleQueryRow| {
        let family = |place: usize| types.get(place).map_or("", String::as_str);
        (0..row.len()).map(|place| value(row.get(place), family(place))).collect::<Vec<_>>()
    };
    let rows = rows.iter().map(cells).collect();
    Reply::Rows(Table { types, rows })
}

/// Returns the families of the types of a statement's columns; none if the statement cannot be
/// described.
async fn types(client: &Client, statement: &str) -> Vec<String> {
    if !DESCRIBED.iter().any(|word| statement.starts_with(word)) {
        return Vec::new();
    }
    match client.prepare(statement).await {
        Ok(prepared) => prepared.columns().iter().map(|it| family(it.type_())).collect(),
        Err(error) => vec![format!("refused to be described: {}", message(&error))],
    }
}

/// Returns the family of a type: types of different widths are one.
fn family(of: &Type) -> String {
    match of.kind() {
        Kind::Array(element) => return format!("{}[]", family(element)),
        Kind::Enum(_) => return "enum".to_owned(),
        _ => {}
    }
    let family = match of.name() {
        "int2" | "int4" | "int8" => "integer",
        "float4" | "float8" => "float",
        "text" | "varchar" | "bpchar" | "name" | "char" | "unknown" => "text",
        other => other,
    };
    family.to_owned()
}

fn value(text: Option<&str>, family: &str) -> Value {
    let Some(text) = text else { return Value::Null };
    match family {
        "bool" => Value::Bool(text == "t"),
        "integer" | "float" | "numeric" => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_families() {
        assert_eq!(family(&Type::INT2), family(&Type::INT8));
        assert_eq!(family(&Type::VARCHAR_ARRAY), "text[]");
        assert_eq!(family(&Type::TIMESTAMPTZ), "timestamptz");
    }

    #[test]
    fn values_have_their_types() {
        assert_eq!(value(Some("t"), "bool"), Value::Bool(true));
        assert_eq!(value(Some("t"), "text"), Value::Text("t".to_owned()));
        assert_eq!(value(Some("1.50"), "numeric"), Value::Number("1.50".to_owned()));
        assert_eq!(value(None, "numeric"), Value::Null);
    }
}
