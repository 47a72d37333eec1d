//! Numbers of passed and failed tests, from the output of test programs.

use std::{fmt, ops::AddAssign};

/// Numbers of passed, failed and ignored tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Counts {
    /// Returns the counts of a line of output if it is the summary of a Rust test program, or a
    /// check of the Test Anything Protocol; `None` for any other line.
    ///
    /// `test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...`
    ///
    /// In the Test Anything Protocol every check has a line: `ok 1 - name`, `not ok 2 - name`.
    pub fn parse(line: &str) -> Option<Self> {
        for (word, passed) in [("ok ", 1), ("not ok ", 0)] {
            let number = line.strip_prefix(word).and_then(|rest| rest.split_once(" - "));
            if number.is_some_and(|(number, _)| number.parse::<u64>().is_ok()) {
                return Some(Self { passed, failed: 1 - passed, ignored: 0 });
            }
        }
        let (_, summary) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = Self::default();
        for part in summary.split(';') {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => counts.passed = number.parse().ok()?,
                Some((number, "failed")) => counts.failed = number.parse().ok()?,
                Some((number, "ignored")) => counts.ignored = number.parse().ok()?,
                _ => {}
            }
        }
        Some(counts)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_summary_and_nothing_else() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; \
                    0 filtered out; finished in 0.01s";
        let counts = Counts { passed: 12, failed: 3, ignored: 1 };
        assert_eq!(Counts::parse(line), Some(counts));
        assert_eq!(Counts::parse("test reads ... ok"), None);
        let passed = Counts { passed: 1, failed: 0, ignored: 0 };
        assert_eq!(Counts::parse("ok 12 - rows are streamed"), Some(passed));
        let failed = Counts { passed: 0, failed: 1, ignored: 0 };
        assert_eq!(Counts::parse("not ok 3 - rows are streamed"), Some(failed));
        assert_eq!(Counts::parse("ok then - it goes on"), None);
        assert_eq!(counts.to_string(), "12 passed, 3 failed, 1 ignored");
    }
}
