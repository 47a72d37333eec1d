//! Rules for the words of comments and documents, and for the names of files.

use super::{
    finding::Finding,
    tree::{File, Tree},
};

/// Words that no paragraph of a doc comment begins with: its subject is a noun of the field, or its
/// first word a verb.
const INTERROGATIVES: &[&str] =
    &["Who", "What", "Whom", "Whose", "Whether", "How", "Where", "Which", "Until", "When", "Why"];

/// Words for a thread, a query, a session or a caller, which have names. They are put together here
/// so that this file does not contain them.
const PERSONS: &[&str] = &[concat!("no", "body"), concat!("some", "body")];

/// Names of files that are participles or figures of speech, which no reader searches for.
const NAMES: &[&str] = &[
    "ahead",
    "apart",
    "aside",
    "asked",
    "bell",
    "books",
    "bounded",
    "broken",
    "chance",
    "counted",
    "crowd",
    "duel",
    "early",
    "fair",
    "fitting",
    "fixed",
    "forget",
    "giant",
    "hinted",
    "inbox",
    "larger",
    "lasting",
    "let_go",
    "mischief",
    "numbered",
    "oblivious",
    "referee",
    "renamed",
    "spilled",
    "twin",
    "unhinted",
    "unused",
    "waiting",
    "watched",
];

/// Checks the first words of doc comments, words for persons, and names of files, in all
/// hand-written files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let findings = |file| interrogatives(file).chain(persons(file)).chain(name(file));
    tree.files.iter().flat_map(findings).collect()
}

fn name(file: &File) -> Option<Finding> {
    let stem = file.path.rsplit('/').next()?.split('.').next()?;
    let is_code = matches!(file.extension(), "rs" | "c" | "cpp" | "h" | "hpp");
    (is_code && NAMES.contains(&stem)).then(|| {
        let message = format!("`{stem}` is no name for a file; take a noun of the field");
        Finding::new(&file.path, 1, message)
    })
}

fn interrogatives(file: &File) -> impl Iterator<Item = Finding> {
    let is_rust = file.rust.is_some();
    let mut before = None;
    file.text.lines().enumerate().filter(move |_| is_rust).filter_map(move |(index, line)| {
        let (kind, text) = doc(line).unzip();
        let word = text.and_then(|text| text.split_whitespace().next());
        // A paragraph begins after a blank line of a comment, or after a line without a comment.
        let begins = kind != before;
        before = kind.filter(|_| word.is_some());
        let word = word?.trim_end_matches([',', ':', '?', '.']);
        (begins && INTERROGATIVES.contains(&word)).then(|| {
            let message =
                format!("a doc comment begins with `{word}`; begin with what it is or does");
            Finding::new(&file.path, index + 1, message)
        })
    })
}

/// The kind of a line's doc comment, and its text.
fn doc(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["//!", "///"].into_iter().find_map(|kind| Some((kind, line.strip_prefix(kind)?)))
}

fn persons(file: &File) -> impl Iterator<Item = Finding> {
    file.text.lines().enumerate().filter_map(|(index, line)| {
        let line = line.to_ascii_lowercase();
        let word = PERSONS.iter().find(|word| line.contains(**word))?;
        let message = format!("`{word}`: say which thread, query, session or caller");
        Some(Finding::new(&file.path, index + 1, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|it| it.message).collect()
    }

    #[test]
    fn docs_that_begin_with_an_interrogative_are_found() {
        for word in INTERROGATIVES {
            let found =
                format!("a doc comment begins with `{word}`; begin with what it is or does");
            let found = [found.as_str()];
            assert_eq!(messages("a.rs", &format!("//! {word} a thing is.\n")), found);
            assert_eq!(messages("a.rs", &format!("struct A {{\n    /// {word}, or not.\n")), found);
            assert_eq!(messages("a.rs", &format!("//! A.\n/// {word}.\nfn a() {{}}\n")), found);
            assert_eq!(messages("a.rs", &format!("/// A.\n///\n/// {word} it is.\n")), found);
            assert_eq!(messages("a.rs", &format!("/// A value and\n/// {word} it is.\n")), [""; 0]);
            assert_eq!(messages("a.md", &format!("/// {word}.\n")), [""; 0]);
        }
        assert_eq!(messages("a.rs", "/// Whatever holds it.\n"), [""; 0]);
    }

    #[test]
    fn names_that_are_no_nouns_are_found() {
        let found = "`crowd` is no name for a file; take a noun of the field";
        assert_eq!(messages("a/crowd.rs", "fn a() {}\n"), [found]);
        assert_eq!(messages("a/crowd.md", "A page.\n"), [""; 0]);
        assert_eq!(messages("crowd/a.rs", "fn a() {}\n"), [""; 0]);
    }

    #[test]
    fn words_for_persons_are_found() {
        for word in PERSONS {
            let found = format!("`{word}`: say which thread, query, session or caller");
            assert_eq!(messages("a.md", &format!("Then {word} waits.\n")), [found.as_str()]);
            assert_eq!(messages("a.rs", &format!("fn {word}_waits() {{}}\n")), [found]);
        }
    }
}
