//! Calls of aggregate functions.

use datafusion::logical_expr::AggregateUDF;

use super::answer::Answer;
use super::argument::{Database, Kind};
use super::call::{Call, TABLE, null_row, tame_rows, used_rows};
use super::run::Run;
use super::shape::{Argument, of_aggregate};
use crate::error::Result;

/// Names that are not called: they are syntax of GROUP BY, or take no arguments here.
const LEFT_OUT: [&str; 2] = ["grouping", "grouping_id"];

/// Functions whose result depends on the order of distinct values, which is unspecified.
const LISTS: [&str; 10] = [
    "any_value",
    "arbitrary",
    "array_agg",
    "first",
    "group_concat",
    "last",
    "list",
    "listagg",
    "string_agg",
    "mode",
];

/// Calls a function over several sets of rows of the table: no rows, nulls, ordinary values, and
/// all values; also with DISTINCT, by group, and over a moving window frame.
///
/// # Errors
/// If DuckDB's process ended.
pub async fn check(run: &mut Run, function: &AggregateUDF, shapes: usize) -> Result<()> {
    if LEFT_OUT.contains(&function.name()) {
        return Ok(());
    }
    let mut names = vec![function.name().to_owned()];
    names.extend(function.aliases().iter().cloned());
    for shape in of_aggregate(function, shapes) {
        if !shape.is_empty() {
            check_shape(run, &names, &shape).await?;
        }
    }
    Ok(())
}

async fn check_shape(run: &mut Run, names: &[String], shape: &[Argument]) -> Result<()> {
    let name = names.first().map_or("", String::as_str);
    let lacks_type = shape.contains(&Argument::Of(Kind::Map));
    let mut seen = Vec::new();
    for call in Call::all(shape) {
        let Some(arguments) = call.columns().filter(|it| !seen.contains(it)) else { continue };
        for form in forms(name, shape) {
            let text = form(name, &arguments);
            let own = run.answer(&format!("SELECT {text}")).await;
            let query = |name: &str, of: Database| {
                let is_possible = !lacks_type || of != Database::Postgres;
                is_possible.then(|| format!("SELECT {}", form(name, &arguments)))
            };
            run.judge(&text, &own, names, query).await?;
            if matches!(own, Answer::Refused(_)) && seen.is_empty() && form_is_plain(&text) {
                return Ok(());
            }
        }
        seen.push(arguments);
    }
    Ok(())
}

/// True for the first of the forms: a function that refuses it refuses the others for the same
/// reason.
fn form_is_plain(text: &str) -> bool {
    text.ends_with("WHERE id < 0")
}

type Form = Box<dyn Fn(&str, &str) -> String + Send + Sync>;

fn forms(name: &str, shape: &[Argument]) -> Vec<Form> {
    let rows = |rows: Vec<usize>| -> String {
        rows.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let (tame, used) = (rows(tame_rows(shape)), rows(used_rows(shape)));
    let nulls = null_row();
    let of = |condition: String| -> Form {
        Box::new(move |name, arguments| {
            format!("{name}({arguments}) AS x FROM {TABLE} WHERE {condition}")
        })
    };
    let groups = tame.clone();
    let frames = tame.clone();
    let distinct = tame.clone();
    let mut forms: Vec<Form> = vec![
        of("id < 0".to_owned()),
        of(format!("id = {nulls}")),
        of("id = 0".to_owned()),
        of(format!("id IN ({tame})")),
        of(format!("id IN ({used})")),
        Box::new(move |name, arguments| {
            format!(
                "{name}({arguments}) AS x FROM {TABLE} WHERE id IN ({groups}) GROUP BY id % 3 \
                 ORDER BY id % 3"
            )
        }),
        Box::new(move |name, arguments| {
            format!(
                "{name}({arguments}) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) \
                 AS x FROM {TABLE} WHERE id IN ({frames}) ORDER BY id"
            )
        }),
    ];
    if !LISTS.contains(&name) {
        forms.push(Box::new(move |name: &str, arguments: &str| {
            format!("{name}(DISTINCT {arguments}) AS x FROM {TABLE} WHERE id IN ({distinct})")
        }));
    }
    forms
}
