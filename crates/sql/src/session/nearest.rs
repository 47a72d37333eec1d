//! Suggestions of names: the existing name that is most like a missing one.

use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{DataFusionError, TableReference};
use datafusion::execution::SessionState;

use crate::names::{Names, SYSTEM_SCHEMA, SearchPath};

/// Maximum number of names that are compared: a suggestion is not worth more time.
const NAMES_MAX: usize = 10_000;
/// Maximum length of a missing name that is compared.
const LENGTH_MAX: usize = 128;

/// The name of `known` that is most like `missing`; `None` if none is similar enough.
pub(super) fn nearest<'a>(
    missing: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let missing = missing.to_lowercase();
    if missing.len() > LENGTH_MAX {
        return None;
    }
    let limit = 1 + missing.chars().count() / 4;
    let near = known.into_iter().take(NAMES_MAX).filter_map(|name| {
        let is_comparable = name.len().abs_diff(missing.len()) <= 4 * limit;
        let distance = is_comparable.then(|| levenshtein(&missing, &name.to_lowercase()))?;
        (distance <= limit).then_some((distance, name))
    });
    near.min().map(|(_, name)| name)
}

/// The table or view that is most like a missing one, with its schema unless that is in the search
/// path.
pub(super) fn relation(names: &Names, path: &SearchPath, missing: &str) -> Option<String> {
    let reference = TableReference::parse_str(missing);
    let relations = names.relations();
    let shown: Vec<(String, &str)> = relations
        .iter()
        .filter(|relation| relation.schema != SYSTEM_SCHEMA || reference.schema().is_some())
        .map(|relation| {
            let is_found = path.schemas().contains(&relation.schema);
            let full = format!("{}.{}", relation.schema, relation.name);
            (if is_found { relation.name.clone() } else { full }, relation.name.as_str())
        })
        .collect();
    // The same name in another schema comes first.
    let table = reference.table();
    let elsewhere = shown.iter().find(|(_, name)| *name == table);
    let found = elsewhere.map(|(_, name)| *name);
    let found = found.or_else(|| nearest(table, shown.iter().map(|(_, name)| *name)))?;
    shown.iter().find(|(_, name)| *name == found).map(|(shown, _)| shown.clone())
}

/// Adds the nearest name to the error for a table or table function that does not exist; leaves any
/// other error unchanged.
pub(super) fn with_suggestion(
    state: &SessionState,
    names: &Names,
    error: DataFusionError,
) -> DataFusionError {
    let DataFusionError::Plan(text) = error.find_root() else { return error };
    let between = |before: &str| text.strip_prefix(before)?.strip_suffix("' not found");
    let (what, missing, near) = if let Some(missing) = between("table function '") {
        let functions = state.table_functions();
        let near = nearest(missing, functions.keys().map(String::as_str)).map(str::to_owned);
        ("table function", missing.to_owned(), near)
    } else if let Some(missing) = between("table '") {
        let options = state.config_options();
        let missing = without_path(&options.catalog.default_schema, missing);
        ("table", missing.to_owned(), relation(names, &SearchPath::of(options), missing))
    } else {
        return error;
    };
    DataFusionError::Plan(not_found(what, &missing, near))
}

/// A missing name without the schemas of a search path: where there are several, DataFusion takes
/// their list for one schema.
fn without_path<'a>(path: &str, missing: &'a str) -> &'a str {
    let (_, after) = missing.split_once('.').unwrap_or(("", missing));
    let is_list = path.contains(',');
    after
        .strip_prefix(path)
        .and_then(|name| name.strip_prefix('.'))
        .filter(|_| is_list)
        .unwrap_or(missing)
}

/// The text of an error for a missing object, with the name that may have been meant.
pub(super) fn not_found(what: &str, missing: &str, near: Option<String>) -> String {
    let asked = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    format!("{what} '{missing}' not found{asked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_others_are_not() {
        let known = ["orders", "order_lines", "emp", "Customers"];
        for (missing, near) in [
            ("order", Some("orders")),
            ("ordrs", Some("orders")),
            ("ORDERS", Some("orders")),
            ("empp", Some("emp")),
            ("customer", Some("Customers")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(missing, known), near, "{missing}");
        }
        assert_eq!(nearest(&"x".repeat(1_000_000), known), None);
    }
}
