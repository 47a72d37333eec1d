//! Runs cargo, or another program that runs tests: prints its output and counts the tests in it.

use std::{
    env,
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::counts::Counts;

/// Outcome of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// True if the command succeeded.
    pub ok: bool,
    /// Counts of the tests that it ran.
    pub counts: Counts,
    /// Number of test programs in which at least one test passed.
    pub programs: usize,
}

impl Outcome {
    /// Converts the outcome to a result whose error names the step.
    pub fn result(self, step: &str) -> Result<(), String> {
        if self.ok { Ok(()) } else { Err(format!("{step}: failed ({})", self.counts)) }
    }

    /// Combines two outcomes: success if both succeeded, with the tests added up.
    pub fn and(mut self, other: Self) -> Self {
        self.ok &= other.ok;
        self.counts += other.counts;
        self.programs += other.programs;
        self
    }
}

/// Environment variable that names a configuration file for every cargo that this program starts,
/// for example with profiles; `.ci/run` sets it.
const CONFIG: &str = "TERRACE_CARGO_CONFIG";

/// Returns a command for the cargo that runs this program, in the root of the workspace.
pub fn cargo(root: &Path) -> Command {
    let mut command = command(root, &program());
    command.args(config());
    command
}

fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns the arguments that pass the file named by [`CONFIG`] to cargo; none if it is not set.
fn config() -> impl Iterator<Item = OsString> {
    env::var_os(CONFIG).into_iter().flat_map(|file| ["--config".into(), file])
}

/// Returns a command for the cargo of the nightly toolchain, through rustup's proxy.
pub fn nightly(root: &Path) -> Command {
    let mut command = command(root, "cargo".as_ref());
    // The environment of the running toolchain would override the one requested.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").arg("+nightly");
    command
}

/// Returns a command for a program that is cargo, or that runs cargo, in the root of the workspace.
///
/// Cargo sets variables that describe this program's package. Build scripts of other packages
/// depend on the same variables, and would run again, and recompile all that depends on them: that
/// of `ring` reads the name of its package, and DataFusion depends on `ring`.
pub fn command(root: &Path, program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).env("CARGO_TERM_COLOR", "never");
    for (name, _) in env::vars_os() {
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
            .iter()
            .any(|prefix| name.to_string_lossy().starts_with(prefix))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Builds tests without a time limit, and runs them within `limit`. If a run hangs, its output ends
/// with the test that has started and not ended.
pub fn test_within(limit: Duration, root: &Path, args: &[&str], envs: &[(&str, &str)]) -> Outcome {
    let mut build = cargo(root);
    build.args(["test", "--no-run"]).args(args);
    if !run(build).ok {
        return Outcome::default();
    }
    let mut command = command(root, "timeout".as_ref());
    command.args(["--kill-after=10", &limit.as_secs().to_string()]).arg(program()).args(config());
    command.arg("test").args(args).envs(envs.iter().copied());
    let start = Instant::now();
    let outcome = run(command);
    if start.elapsed() >= limit {
        eprintln!("the tests did not end within {} s and were stopped", limit.as_secs());
    }
    outcome
}

/// Runs a cargo command that compiles, and fails if a crate has warnings.
pub fn run_without_warnings(mut command: Command) -> Outcome {
    println!("$ {}", describe(&command));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("{}: {error}", describe(&command));
            return Outcome::default();
        }
    };
    let text = String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    Outcome { ok: output.status.success() && !has_warnings(&text), ..Outcome::default() }
}

/// Returns true if cargo has printed how many warnings a crate has.
fn has_warnings(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("warning: `") && line.contains(" generated "))
}

/// Runs a command, prints its output and counts its tests.
pub fn run(mut command: Command) -> Outcome {
    let line = describe(&command);
    println!("$ {line}");
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{line}: {error}");
            return Outcome::default();
        }
    };
    let mut outcome = Outcome::default();
    if let Some(output) = child.stdout.take() {
        outcome = pass_on(BufReader::new(output));
    }
    outcome.ok = match child.wait() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{line}: {error}");
            false
        }
    };
    outcome
}

/// Copies `output` to standard output, and returns the counts of the tests in it.
fn pass_on(output: impl BufRead) -> Outcome {
    let mut outcome = Outcome::default();
    let mut screen = std::io::stdout().lock();
    for line in output.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if let Some(more) = Counts::parse(line.trim_end()) {
            outcome.counts += more;
            outcome.programs += usize::from(more.passed > 0);
        }
        // The checks continue if the terminal is closed.
        let _ = writeln!(screen, "{line}");
    }
    outcome
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_crates_are_seen() {
        let clean = "warning: the following packages contain code that will be rejected\n    \
                     Finished `release` profile [optimized] target(s) in 0.30s";
        assert!(!has_warnings(clean));
        let one = "warning: unused variable: `x`\nwarning: `terrace-sys` (lib) generated 1 warning";
        assert!(has_warnings(one));
    }
}
