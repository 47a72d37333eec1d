//! Rules for `unsafe`: the crates that may use it, and the comments that it needs.

use super::{
    finding::Finding,
    line::Line,
    rust::{Rust, contains_word},
    tree::{File, Tree},
};

/// Crates that need `unsafe`; every other crate forbids it in its root.
const UNSAFE_CRATES: &[&str] =
    &["sys", "pool", "region", "heap", "objects", "capi", "compact", "exec", "table", "terrace"];
/// Heading that the doc comment of an unsafe function or trait must contain.
const ASKS: &str = "# Safety";
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Checks that `unsafe` occurs only in [`UNSAFE_CRATES`], and always with a comment that gives the
/// reason.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let roots =
        tree.rust().filter(|(file, _)| is_root(file)).filter_map(|(file, rust)| root(file, rust));
    let reasons = tree.rust().flat_map(|(file, rust)| reasons(file, rust));
    roots.chain(reasons).collect()
}

fn is_root(file: &File) -> bool {
    file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs")
}

fn root(file: &File, rust: &Rust) -> Option<Finding> {
    let forbidden = rust.code().any(|(_, code)| code.trim() == FORBID);
    let allowed = UNSAFE_CRATES.contains(&file.crate_name());
    let missing = !allowed && !forbidden;
    missing.then(|| Finding::new(&file.path, 1, format!("the crate's root lacks `{FORBID}`")))
}

fn reasons(file: &File, rust: &Rust) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in rust.lines.iter().enumerate() {
        let wanted = match keyword(&line.code) {
            Some(ASKS) if implements(&rust.lines, index) => continue,
            Some(wanted) if !has_reason(&rust.lines, index, wanted) => wanted,
            _ => continue,
        };
        let message = format!("`unsafe` without a comment with `{wanted}`");
        findings.push(Finding::new(&file.path, index + 1, message));
    }
    findings
}

/// Returns the text that the comment above an `unsafe` on the line must contain; `None` if there is
/// no `unsafe`.
///
/// A block or an implementation states why it is sound; a function or a trait states its
/// requirements. An attribute that gives a function its C name runs no code.
fn keyword(code: &str) -> Option<&'static str> {
    let is_pointer = code.contains("unsafe fn(") || code.contains("unsafe extern \"C\" fn(");
    let starts = |with| code.trim_start().starts_with(with);
    let is_attribute = starts("#!") || starts("#[unsafe(no_mangle)]");
    if !contains_word(code, "unsafe") || is_pointer || is_attribute {
        return None;
    }
    // The ABI name is a string, which is not part of the code.
    let exports = code.contains("unsafe extern ") && code.contains(" fn ");
    let declares = exports || code.contains("unsafe fn ") || code.contains("unsafe trait ");
    Some(if declares { ASKS } else { "SAFETY:" })
}

/// Returns true if the function on the line belongs to the implementation of a trait, which has
/// stated the requirements already.
fn implements(lines: &[Line], at: usize) -> bool {
    let indent = |line: &Line| line.code.len() - line.code.trim_start().len();
    let own = indent(&lines[at]);
    let outside = |line: &&Line| !line.code.trim().is_empty() && indent(line) < own;
    let around = lines[..at].iter().rev().find(outside);
    around.is_some_and(|line| contains_word(&line.code, "impl") && contains_word(&line.code, "for"))
}

/// Returns true if the comment above the statement, or one on its line, contains the word.
fn has_reason(lines: &[Line], at: usize, wanted: &str) -> bool {
    let says = |line: &Line| line.comment.contains(wanted) || line.comment.contains("SAFETY:");
    if says(&lines[at]) {
        return true;
    }
    let mut in_statement = true;
    for line in lines[..at].iter().rev() {
        if says(line) {
            return true;
        }
        let code = line.code.trim();
        in_statement &= !code.ends_with([';', '{', '}']);
        let is_comment = code.is_empty() && !line.comment.is_empty();
        let is_attribute = code.starts_with("#[");
        if !in_statement && !is_comment && !is_attribute {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn unsafe_needs_its_reason() {
        let path = "crates/sys/src/a.rs";
        assert_eq!(count(path, "fn f() {\n    unsafe { g() }\n}\n"), 1);
        assert_eq!(count(path, "fn f() {\n    // SAFETY: fine.\n    unsafe { g() }\n}\n"), 0);
        let statement = "fn f() {\n    // SAFETY: fine.\n    let x =\n        unsafe { g() };\n}\n";
        assert_eq!(count(path, statement), 0);
        let other = "fn f() {\n    // SAFETY: fine.\n    h();\n    unsafe { g() };\n}\n";
        assert_eq!(count(path, other), 1);
        assert_eq!(count(path, "/// G.\npub unsafe fn g() {}\n"), 1);
        assert_eq!(count(path, "/// # Safety\n/// Ask.\npub unsafe fn g() {}\n"), 0);
        let exported = "#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn g() {}\n";
        assert_eq!(count(path, exported), 1);
        assert_eq!(count(path, &format!("/// # Safety\n/// Ask.\n{exported}")), 0);
        let implemented = "unsafe impl T for S {\n    unsafe fn g() {}\n}\n";
        assert_eq!(count(path, implemented), 1, "the implementation itself has no reason");
        assert_eq!(count(path, &format!("// SAFETY: fine.\n{implemented}")), 0);
        assert_eq!(count(path, "// unsafe\nfn f() { \"unsafe\" }\n"), 0);
    }

    #[test]
    fn most_crates_forbid_it() {
        assert_eq!(count("crates/market/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(count("crates/market/src/lib.rs", "#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(count("crates/sys/src/lib.rs", "//! A.\n"), 0);
    }
}
