//! Texts of the 99 queries, from a directory or from a package.

use std::fs;
use std::path::Path;

use crate::duckdb::answers::tpcds_texts;
use crate::error::{BenchError, Result};
use crate::suite::reference::Texts;
use crate::tpcds::shape::statements;

/// Returns the texts of these queries: from the directory if one is given, otherwise from the
/// package.
///
/// # Errors
/// [`BenchError::Input`] that names what is missing and a valid input.
pub async fn texts(directory: Option<&Path>, queries: &[u32]) -> Result<Texts> {
    let Some(directory) = directory else {
        let texts = tpcds_texts().await.map_err(|error| no_package(&error))?;
        return queries.iter().map(|number| Ok((*number, of(&texts, *number)?))).collect();
    };
    queries.iter().map(|number| Ok((*number, read(directory, *number)?))).collect()
}

fn of(texts: &Texts, number: u32) -> Result<String> {
    let missing = || BenchError::input(format!("the package has no text of query {number}"));
    texts.get(&number).cloned().ok_or_else(missing)
}

fn no_package(error: &BenchError) -> BenchError {
    BenchError::input(format!(
        "the texts of the TPC-DS queries are not here and cannot be installed ({error}); name a \
         directory of 1.sql to 99.sql with --queries-dir, or let python3 install the packages \
         duckdb 1.5.5 and duckdb-extension-tpcds 1.5.5"
    ))
}

/// Returns the file names that the text of a query may have.
fn names(number: u32) -> [String; 6] {
    ["", "q", "query"]
        .map(|stem| [format!("{stem}{number}.sql"), format!("{stem}{number:02}.sql")])
        .concat()
        .try_into()
        .unwrap_or_default()
}

fn read(directory: &Path, number: u32) -> Result<String> {
    let paths = names(number).map(|name| directory.join(name));
    let Some(path) = paths.iter().find(|path| path.exists()) else {
        let names = names(number);
        let (directory, first) = (directory.display(), names.join(", "));
        return Err(BenchError::input(format!(
            "there is no text of query {number} in {directory}; it is to be one of {first}"
        )));
    };
    let text = fs::read_to_string(path).map_err(|source| BenchError::file("read", path, source))?;
    one_statement(path, text)
}

/// Checks that a text is one statement. Some kits split a query into two statements, each of which
/// would be another query.
fn one_statement(path: &Path, text: String) -> Result<String> {
    match statements(&text) {
        Some(count) if count != 1 => Err(BenchError::input(format!(
            "{} holds {count} statements; a query is one",
            path.display()
        ))),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Scratch;

    fn directory(files: &[(&str, &str)]) -> Scratch {
        let directory = Scratch::of(None, "texts").expect("made");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("written");
        }
        directory
    }

    #[tokio::test]
    async fn texts_have_any_of_the_usual_names() {
        let files = [("1.sql", "SELECT 1;"), ("query02.sql", "SELECT 2"), ("q3.sql", "SELECT 3")];
        let directory = directory(&files);
        let texts = texts(Some(directory.path()), &[3, 1, 2]).await.expect("read");
        let found: Vec<(u32, &str)> = texts.iter().map(|(n, text)| (*n, text.as_str())).collect();
        assert_eq!(found, [(1, "SELECT 1;"), (2, "SELECT 2"), (3, "SELECT 3")]);
    }

    #[tokio::test]
    async fn what_is_missing_or_double_is_named() {
        let directory = directory(&[("14.sql", "SELECT 1; SELECT 2;")]);
        let ask = async |number| {
            texts(Some(directory.path()), &[number]).await.expect_err("refused").to_string()
        };
        let missing = ask(7).await;
        assert!(missing.contains("query 7") && missing.contains("query07.sql"), "{missing}");
        let double = ask(14).await;
        assert!(double.contains("14.sql") && double.contains("2 statements"), "{double}");
    }

    #[test]
    fn a_missing_package_leads_to_the_directory() {
        let message = no_package(&BenchError::Peer("pip ended".into())).to_string();
        assert!(message.contains("--queries-dir") && message.contains("pip ended"), "{message}");
    }
}
