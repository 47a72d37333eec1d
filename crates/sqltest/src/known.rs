//! Differences that are known and have a reason.
//!
//! Format of a list: a line that begins with `= ` is a reason, and the lines after it are the cases
//! that differ for it; `*` in a case stands for any characters. A case that no longer differs is an
//! error.

use std::cell::Cell;
use std::path::Path;

use crate::error::{CheckError, Result};

/// The known differences.
pub struct Known {
    patterns: Vec<Pattern>,
}

struct Pattern {
    text: String,
    /// Number of differences that it has matched.
    uses: Cell<usize>,
}

impl Known {
    /// Parses the list `text`, which errors call `name`, or the file `other` in its place.
    ///
    /// # Errors
    /// [`CheckError::File`], or [`CheckError::Input`] for a case without a reason, or one that is
    /// there twice.
    pub fn read(name: &str, text: &str, other: Option<&Path>) -> Result<Self> {
        match other {
            None => Self::parsed(name, text),
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.map_err(|error| CheckError::file("read", path, error))?;
                Self::parsed(&path.display().to_string(), &text)
            }
        }
    }

    fn parsed(name: &str, text: &str) -> Result<Self> {
        let broken =
            |line: &str, what: &str| Err(CheckError::Input(format!("{name}: {line:?} {what}")));
        let mut patterns: Vec<Pattern> = Vec::new();
        let mut has_reason = false;
        for line in text.lines().map(str::trim) {
            match line {
                "" => {}
                comment if comment.starts_with('#') => {}
                reason if reason.starts_with("= ") => has_reason = true,
                case if !has_reason => return broken(case, "has no reason"),
                case if patterns.iter().any(|it| it.text == case) => {
                    return broken(case, "is there twice");
                }
                text => {
                    patterns.push(Pattern { text: text.to_owned(), uses: Cell::new(0) });
                }
            }
        }
        Ok(Self { patterns })
    }

    /// True if a case is known to differ.
    #[must_use]
    pub fn has(&self, case: &str) -> bool {
        let mut found = false;
        for pattern in self.patterns.iter().filter(|pattern| matches(&pattern.text, case)) {
            pattern.uses.set(pattern.uses.get() + 1);
            found = true;
        }
        found
    }

    /// Returns the entries that match no difference.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        self.patterns
            .iter()
            .filter(|pattern| pattern.uses.get() == 0)
            .map(|pattern| pattern.text.as_str())
    }
}

/// True if `text` matches `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let pieces: Vec<_> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_cases() {
        assert!(matches("f(1)", "f(1)"));
        assert!(matches("f(*)", "f(1, 2)"));
        assert!(matches("*f(*, NULL)", "SELECT f(1, NULL)"));
        assert!(!matches("f(1)", "f(12)"));
        assert!(!matches("f(*x*)", "f(y)"));
    }

    #[test]
    fn an_entry_that_matches_nothing_is_found() {
        let known = Known::parsed("list", "= a reason\nf(*)\ng(1)\n").expect("read");
        assert!(known.has("f(3)"));
        assert!(!known.has("h(3)"));
        assert_eq!(known.unused().collect::<Vec<_>>(), ["g(1)"]);
        assert!(Known::parsed("list", "f(1)").is_err());
        assert!(Known::parsed("list", "= a reason\nf(1)\nf(1)").is_err());
    }
}
