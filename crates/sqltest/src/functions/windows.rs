//! Calls of window functions.

use super::argument::{Database, Kind};
use super::call::TABLE;
use super::run::Run;
use crate::error::Result;

/// Arguments of window functions, by name.
fn arguments(name: &str) -> Vec<String> {
    let columns = [Kind::Int, Kind::Double, Kind::Text, Kind::Date, Kind::Decimal];
    let columns = columns.map(|kind| format!("{}0", format!("{kind:?}").to_lowercase()));
    let of_columns = |rest: &[&str]| -> Vec<String> {
        columns.iter().flat_map(|it| rest.iter().map(move |rest| format!("{it}{rest}"))).collect()
    };
    match name {
        "ntile" => vec!["1".to_owned(), "3".to_owned(), "100".to_owned(), "0".to_owned()],
        "lag" | "lead" => of_columns(&["", ", 2", ", 0", ", -1", ", 100", ", NULL"]),
        "first_value" | "last_value" => of_columns(&[""]),
        "nth_value" => of_columns(&[", 1", ", 3", ", 100", ", 0"]),
        _ => vec![String::new()],
    }
}

const WINDOWS: [&str; 4] = [
    "ORDER BY id",
    "ORDER BY id / 5",
    "PARTITION BY id % 2 ORDER BY id DESC",
    "ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
];

/// Calls a function over several windows.
///
/// # Errors
/// If DuckDB's process ended.
pub async fn check(run: &mut Run, name: &str) -> Result<()> {
    let names = [name.to_owned()];
    for arguments in arguments(name) {
        for window in WINDOWS {
            // If rows tie in the order, the value of a row depends on its place among them.
            if window == "ORDER BY id / 5" && !arguments.is_empty() {
                continue;
            }
            let text = |name: &str| {
                format!("{name}({arguments}) OVER ({window}) AS x FROM {TABLE} ORDER BY id")
            };
            let own = run.answer(&format!("SELECT {}", text(name))).await;
            let query = |name: &str, of: Database| {
                let text = match of {
                    Database::Duck => text(name).replace("id / 5", "id // 5"),
                    _ => text(name),
                };
                Some(format!("SELECT {text}"))
            };
            run.judge(&text(name), &own, &names, query).await?;
        }
    }
    Ok(())
}
