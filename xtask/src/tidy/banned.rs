//! Banned calls, which have a better replacement.

use super::{
    finding::Finding,
    rust::Rust,
    tree::{File, Tree},
};

/// A banned call, its exceptions and its replacement.
struct Ban {
    call: &'static str,
    /// Crates that may use it.
    except: &'static [&'static str],
    /// True if test code may use it.
    in_tests: bool,
    instead: &'static str,
}

impl Ban {
    /// Creates a ban without exceptions, also for tests.
    const fn nowhere(call: &'static str, instead: &'static str) -> Self {
        Self { call, except: &[], in_tests: false, instead }
    }

    /// Creates a ban for all code except tests and the crates `except`.
    const fn outside(
        except: &'static [&'static str],
        call: &'static str,
        instead: &'static str,
    ) -> Self {
        Self { call, except, in_tests: true, instead }
    }
}

/// Crates that print to the terminal.
const TALKING: &[&str] = &["terrace", "sqltest", "testkit", "xtask"];
/// Crates for tests only, which report by failed expectations.
const TEST_SUPPORT: &[&str] = &["testkit"];

const RESULT: &str = "an error that names the input and what would be right";
const LOG: &str = "return it, or `tracing`";

const BANS: &[Ban] = &[
    Ban { call: "libc::", except: &["sys"], in_tests: false, instead: "a wrapper in terrace-sys" },
    Ban { call: "io_uring::", except: &["sys"], in_tests: false, instead: "`terrace_sys::uring`" },
    Ban::outside(TEST_SUPPORT, ".unwrap()", RESULT),
    Ban::outside(TEST_SUPPORT, ".expect(\"", RESULT),
    Ban::outside(TEST_SUPPORT, ".expect(&", RESULT),
    Ban::outside(TEST_SUPPORT, ".unwrap_err()", RESULT),
    Ban::outside(TALKING, "println!", LOG),
    Ban::outside(TALKING, "print!", LOG),
    Ban::outside(TALKING, "eprintln!", LOG),
    Ban::outside(TALKING, "eprint!", LOG),
    Ban::outside(TALKING, "process::exit", "an error returned to `main`"),
    Ban::outside(&[], "mem::forget", "a guard whose drop does the right thing, or `ManuallyDrop`"),
    Ban::outside(&[], "static mut", "an atomic or a lock"),
    Ban::nowhere("todo!", "the code"),
    Ban::nowhere("unimplemented!", "the code, or an error that says what is possible"),
    Ban::nowhere("dbg!", "`tracing`"),
    Ban::nowhere("#[ignore", "a short run by default and a long one by TERRACE_SOAK_SECONDS"),
];

/// Finds every banned call.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|(file, rust)| calls(file, rust)).collect()
}

fn calls(file: &File, rust: &Rust) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in rust.lines.iter().enumerate() {
        let test = line.test || file.is_test();
        let applies = |ban: &&Ban| {
            let excused = test && ban.in_tests || ban.except.contains(&file.crate_name());
            !excused && contains_call(&line.code, ban.call)
        };
        for ban in BANS.iter().filter(applies) {
            let message = format!("`{}` is banned; instead: {}", ban.call, ban.instead);
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

/// Returns true if the call is in the code, and not only the end of a longer name.
fn contains_call(code: &str, call: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(call)
        .any(|(start, _)| !(call.starts_with(part) && code[..start].ends_with(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn every_ban_is_found() {
        for ban in BANS {
            let text = format!("fn f() {{\n    x{}y\n}}\n", format_args!(" {} ", ban.call));
            assert!(count("crates/pool/src/a.rs", &text) > 0, "{}", ban.call);
        }
    }

    #[test]
    fn tests_and_exceptions_are_free() {
        assert_eq!(count("crates/pool/tests/a.rs", "fn f() { x.unwrap(); }\n"), 0);
        assert_eq!(count("crates/pool/src/a.rs", "#[cfg(test)]\nfn f() { x.unwrap(); }\n"), 0);
        assert_eq!(count("crates/pool/tests/a.rs", "fn f() { libc::getpid(); }\n"), 1);
        assert_eq!(count("crates/sys/src/a.rs", "fn f() { libc::getpid(); }\n"), 0);
        assert_eq!(count("crates/terrace/src/a.rs", "fn f() { println!(); }\n"), 0);
    }

    #[test]
    fn comments_strings_and_longer_names_are_free() {
        let text = "// x.unwrap()\nfn f() { g(\"todo!\"); my_print!(); x.unwrap_or(1); }\n";
        assert_eq!(count("crates/pool/src/a.rs", text), 0);
    }
}
