//! Calls of scalar functions.

use datafusion::logical_expr::ScalarUDF;

use super::answer::Answer;
use super::argument::Database;
use super::call::{Call, TABLE};
use super::run::Run;
use super::shape::{Argument, of_scalar};
use crate::error::Result;

/// Maximum number of combinations of types for a function that no other database has.
const SHAPES_OF_OWN: usize = 2;

/// Calls a function with all arguments of at most `shapes` combinations of types.
///
/// # Errors
/// If DuckDB's process ended.
pub async fn check(run: &mut Run, function: &ScalarUDF, shapes: usize) -> Result<()> {
    let mut names = vec![function.name().to_owned()];
    names.extend(function.aliases().iter().cloned());
    let shapes = if run.is_judged(&names) { shapes } else { shapes.min(SHAPES_OF_OWN) };
    for shape in &of_scalar(function, shapes) {
        check_shape(run, &names, shape).await?;
    }
    Ok(())
}

async fn check_shape(run: &mut Run, names: &[String], shape: &[Argument]) -> Result<()> {
    let name = names.first().map_or("", String::as_str);
    let mut answered: Vec<(Call<'_>, Answer)> = Vec::new();
    for call in Call::all(shape) {
        let Some(literals) = call.literals(Database::Terrace) else { continue };
        let text = format!("{name}({literals})");
        let own = run.answer(&format!("SELECT {text} AS x")).await;
        let query = |name: &str, of| Some(format!("SELECT {name}({}) AS x", call.literals(of)?));
        run.judge(&text, &own, names, query).await?;
        if call.columns().is_some() {
            answered.push((call, own));
        }
    }
    check_columns(run, name, &answered).await;
    Ok(())
}

/// Calls the function over the columns of the table, the rows with the same words at once; rows
/// that are refused as literals one by one.
async fn check_columns(run: &mut Run, name: &str, answered: &[(Call<'_>, Answer)]) {
    let mut rest = answered;
    while let Some((first, _)) = rest.first() {
        let count = rest.iter().take_while(|(call, _)| call.has_words_of(first)).count();
        let (same, others) = rest.split_at(count);
        rest = others;
        let Some(columns) = first.columns() else { continue };
        let query = |rows: &[String]| {
            let rows = rows.join(", ");
            format!("SELECT {name}({columns}) AS x FROM {TABLE} WHERE id IN ({rows}) ORDER BY id")
        };
        let mut expected = Vec::new();
        let mut rows = Vec::new();
        for (call, answer) in same {
            if let Answer::Values(values) = answer {
                expected.extend(values.iter().cloned());
                rows.push(call.row.to_string());
            }
        }
        let is_possible = rows.is_empty() || {
            let text = format!("{name}({columns}) of rows {}", rows.join(", "));
            match run.answer(&query(&rows)).await {
                Answer::Refused(message) => {
                    run.refused_columns(&text, &Answer::Refused(message));
                    false
                }
                answer => {
                    run.compare(&text, &Answer::Values(expected), &answer);
                    true
                }
            }
        };
        if !is_possible {
            continue;
        }
        for (call, answer) in same.iter().filter(|(_, answer)| matches!(answer, Answer::Refused(_)))
        {
            let row = call.row.to_string();
            let text = format!("{name}({columns}) of row {row}");
            let over_columns = run.answer(&query(std::slice::from_ref(&row))).await;
            if matches!(over_columns, Answer::Values(_)) {
                run.compare(&text, answer, &over_columns);
            }
        }
    }
}
