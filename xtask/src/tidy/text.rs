//! Text rules for every file: line lengths, letters and words.

use super::{finding::Finding, tree::File, tree::Tree};

const LINE_COLUMNS_MAX: usize = 100;

/// Words that refer to the place of work and not to the project. They are concatenated here so that
/// this file does not contain them.
const WORKPLACE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/sp", "ec"),
    concat!("issu", "e #"),
];

/// Markers of unfinished work.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("not implemented ", "yet"),
    concat!("for ", "now,"),
    concat!("for ", "now."),
];

/// Checks line lengths, letters, and words of the workplace and of unfinished work.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| !file.path.starts_with("LICENSE")).flat_map(file).collect()
}

fn file(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for message in faults(file, line) {
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let line = file.text.lines().count();
        findings.push(Finding::new(&file.path, line, "the last line does not end"));
    }
    findings
}

fn faults(file: &File, line: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let columns = line.chars().count();
    if columns > LINE_COLUMNS_MAX && !may_be_long(file, line) {
        faults.push(format!("{columns} columns; {LINE_COLUMNS_MAX} at most"));
    }
    if let Some(letter) = line.chars().find(|letter| !letter.is_ascii()) {
        faults.push(format!("`{}` is not ASCII", letter.escape_unicode()));
    }
    if line.ends_with([' ', '\t']) {
        faults.push("blanks at the end of the line".to_owned());
    }
    for word in WORKPLACE.iter().filter(|word| line.contains(**word)) {
        faults.push(format!("`{word}` belongs to the place of work; speak of the project alone"));
    }
    for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
        faults.push(format!("`{word}`: finish it, or say what it does not do and why"));
    }
    faults
}

/// Returns true for a line that may be long: a table, an address or a list of features cannot be
/// broken, and queries are third-party text.
fn may_be_long(file: &File, line: &str) -> bool {
    match file.extension() {
        "md" => line.starts_with('|') || line.contains("](http"),
        "toml" => line.contains("features = ["),
        "sql" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn long_lines_and_foreign_letters_are_found() {
        let long = format!("{}\n", "x".repeat(101));
        assert_eq!(messages("a.rs", &long), ["101 columns; 100 at most"]);
        assert_eq!(messages("a.md", &format!("|{long}")), [""; 0]);
        assert_eq!(messages("a.rs", "\u{e9}\n"), ["`\\u{e9}` is not ASCII"]);
        assert_eq!(messages("a.rs", "a \n"), ["blanks at the end of the line"]);
        assert_eq!(messages("a.rs", "a"), ["the last line does not end"]);
    }

    #[test]
    fn words_of_the_workplace_are_found() {
        let text = format!("// see {}shared\n", WORKPLACE[0]);
        assert_eq!(messages("a.rs", &text).len(), 1);
        assert_eq!(messages("a.rs", &format!("// {}\n", UNFINISHED[0])).len(), 1);
        assert_eq!(messages("a.rs", "// a framework for networks\n"), [""; 0]);
    }
}
