//! Limits of the lengths of functions and files.

use super::{
    finding::Finding,
    region,
    rust::{Rust, word_at},
    tree::{File, Tree},
};

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 1000;
const FILE_LINES_WITHOUT_REASON: usize = 600;

/// Files of more than 600 lines, with the reasons that they are not split.
const LONG_FILES: &[(&str, &str)] = &[];

/// Checks the lengths: a function must fit on a screen, and a file is one concept.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = tree
        .rust()
        .flat_map(|(file, rust)| [functions(file, rust), length(file)].concat())
        .collect();
    findings.extend(stale(tree));
    findings
}

fn functions(file: &File, rust: &Rust) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, code) in rust.code() {
        let Some(name) = function_name(code) else { continue };
        let end = region::item_end(&rust.lines, number - 1);
        let lines = end + 2 - number;
        if lines > FUNCTION_LINES_MAX {
            let message = format!("`{name}` has {lines} lines; {FUNCTION_LINES_MAX} at most");
            findings.push(Finding::new(&file.path, number, message));
        }
    }
    findings
}

/// Returns the name of the function that is declared on the line; a function pointer has none.
fn function_name(code: &str) -> Option<&str> {
    let after = code[word_at(code, "fn")? + 2..].trim_start();
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
    (end > 0).then(|| &after[..end])
}

fn length(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let reason = LONG_FILES.iter().any(|(path, _)| *path == file.path);
    let message = if lines > FILE_LINES_MAX {
        format!("{lines} lines; {FILE_LINES_MAX} at most")
    } else if lines > FILE_LINES_WITHOUT_REASON && !reason {
        format!("{lines} lines; above {FILE_LINES_WITHOUT_REASON} it needs a reason in LONG_FILES")
    } else {
        return Vec::new();
    };
    vec![Finding::new(&file.path, lines, message)]
}

/// Finds files in [`LONG_FILES`] that are no longer too long.
fn stale(tree: &Tree) -> Vec<Finding> {
    let long = |path: &str| {
        let file = tree.files.iter().find(|file| file.path == path);
        file.is_some_and(|file| file.text.lines().count() > FILE_LINES_WITHOUT_REASON)
    };
    let stale = LONG_FILES.iter().filter(|(path, _)| !long(path));
    stale.map(|(path, _)| Finding::new(path, 1, "is in LONG_FILES and not long")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        check(&Tree::of(&[("crates/a/src/a.rs", text)])).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn long_functions_are_found() {
        let body = "    work();\n".repeat(69);
        let text = format!("pub(crate) async fn long(f: fn(u8)) {{\n{body}}}\n");
        assert_eq!(messages(&text), ["`long` has 71 lines; 70 at most"]);
        let text = format!("fn fits() {{\n{}}}\n", "    work();\n".repeat(68));
        assert_eq!(messages(&text), [""; 0]);
    }

    #[test]
    fn long_files_are_found() {
        let text = "use a;\n".repeat(601);
        assert_eq!(messages(&text), ["601 lines; above 600 it needs a reason in LONG_FILES"]);
        assert_eq!(messages(&"use a;\n".repeat(1001)), ["1001 lines; 1000 at most"]);
    }
}
