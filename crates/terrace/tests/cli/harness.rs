//! Runs the program with a home directory of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary home directory and data directory, removed on drop.
pub struct Home {
    directory: TempDir,
}

/// Output and exit status of a run.
#[derive(Debug)]
pub struct Ran {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
}

impl Home {
    pub fn new() -> Home {
        Home { directory: TempDir::new().expect("temporary directory") }
    }

    /// Returns a path in the directory, as text.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_string_lossy().into_owned()
    }

    /// Writes a file in the directory and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        let parent = path.parent().expect("inside the home");
        std::fs::create_dir_all(parent).expect("directory");
        std::fs::write(&path, text).expect("written");
        path
    }

    /// Creates a command with these arguments, isolated from the user's own configuration.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command
            .args(arguments)
            .env("HOME", self.directory.path())
            .env("XDG_CONFIG_HOME", self.directory.path().join("config"))
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().expect("started"))
    }

    /// Runs the program, which must succeed, and returns its output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs statements on the data directory `data` and returns one JSON value per row.
    pub fn rows(&self, statements: &str) -> Vec<Value> {
        let data = self.path("data");
        let arguments =
            ["sql", "--dram", "64MiB", "--data", &data, "--format", "ndjson", "-c", statements];
        lines(&self.ok(&arguments))
    }
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Ran { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Checks that the program refused: its exit code, and one message with all of these words.
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let message = self.err.to_lowercase();
        let messages = message.lines().filter(|line| line.starts_with("error:")).count();
        assert_eq!(messages, 1, "{self:?}");
        for word in words {
            assert!(message.contains(&word.to_lowercase()), "{word:?} in {self:?}");
        }
        assert!(!message.contains("panicked"), "{self:?}");
    }
}

/// Parses the JSON values of a text, one per line.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Parses the JSON value in a file.
pub fn json(path: impl AsRef<Path>) -> Value {
    let text = std::fs::read_to_string(path).expect("file");
    serde_json::from_str(&text).expect("JSON")
}
