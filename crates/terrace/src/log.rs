//! Log messages of the program and their destination.
//!
//! The terminal of `terrace sql` shows only results and errors. Warnings of the engine go to the
//! file `terrace/log` in the user's state directory (`XDG_STATE_HOME`, or `~/.local/state`), for
//! the analysis of problems. `-v` shows them on standard error instead, and `-vv` shows more.
//! Experiments always log to standard error, since a warning belongs to their report. A server logs
//! to standard error, which systemd and others collect.

mod json;

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Write, stderr};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use json::Json;
use tracing::Level;
use tracing_subscriber::fmt::MakeWriter;

/// Length at which a log is renamed to `log.old` when a program opens it, and maximum number of
/// bytes that one program writes.
const LOG_BYTES_MAX: u64 = 4 << 20;

/// Format of the log messages of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// A line of text per message.
    Text,
    /// A JSON object per line and message.
    Json,
}

/// Destination of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The log file, or standard error with `-v`.
    File,
    /// Standard error.
    Terminal,
    /// Standard error, with the time and one more level of detail, for operators of a server.
    Server(LogFormat),
}

/// Starts logging to a destination; `verbose` is the number of `-v` options.
pub fn start(verbose: u8, place: Destination) {
    let level = match verbose + u8::from(matches!(place, Destination::Server(_))) {
        0 => Level::WARN,
        1 => Level::INFO,
        2 => Level::DEBUG,
        _ => Level::TRACE,
    };
    let messages = tracing_subscriber::fmt().with_max_level(level);
    let file = state_file("log").filter(|_| verbose == 0 && place == Destination::File);
    match (place, file) {
        (_, Some(path)) => messages.with_ansi(false).with_writer(Log::new(path)).init(),
        (Destination::Server(LogFormat::Json), None) => {
            messages.with_ansi(false).event_format(Json).with_writer(stderr).init();
        }
        (Destination::Server(LogFormat::Text), None) => {
            messages.with_ansi(stderr().is_terminal()).with_writer(stderr).init();
        }
        (Destination::File | Destination::Terminal, None) => {
            messages.with_writer(stderr).without_time().init();
        }
    }
}

/// Returns the path of the file `name` in `terrace` in the user's state directory; `None` if the
/// environment names no such directory.
pub fn state_file(name: &str) -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(base.join("terrace").join(name))
}

/// A log file that programs append to, opened with the first message. If it cannot be written,
/// messages are dropped: there is no other place to report it.
struct Log {
    path: PathBuf,
    state: Mutex<State>,
}

enum State {
    Unopened,
    Open {
        file: File,
        left_bytes: u64,
    },
    /// The file cannot be written, or this program has written its maximum.
    Closed,
}

impl Log {
    fn new(path: PathBuf) -> Log {
        Log { path, state: Mutex::new(State::Unopened) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = &'a Log;

    fn make_writer(&'a self) -> &'a Log {
        self
    }
}

impl Write for &Log {
    /// Appends a message in one write, so that messages of several programs do not mix.
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        if matches!(*state, State::Unopened) {
            *state = open(&self.path)
                .map_or(State::Closed, |file| State::Open { file, left_bytes: LOG_BYTES_MAX });
        }
        if let State::Open { file, left_bytes } = &mut *state {
            let line = [format!("{} ", process::id()).as_bytes(), message].concat();
            let bytes = u64::try_from(line.len()).unwrap_or(u64::MAX);
            let written = *left_bytes >= bytes && file.write_all(&line).is_ok();
            *left_bytes = left_bytes.saturating_sub(bytes);
            if !written {
                *state = State::Closed;
            }
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    if fs::metadata(path).is_ok_and(|log| log.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("old"))?;
    }
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_limit_and_a_long_one_is_set_aside() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("deep/log");
        let say = |log: &Log, text: &[u8]| {
            let mut writer = log;
            writer.write_all(text).expect("a log takes everything");
        };
        let log = Log::new(path.clone());
        say(&log, b"one\n");
        say(&log, &vec![b'x'; 3 << 20]);
        say(&log, &vec![b'y'; 3 << 20]);
        say(&log, b"two\n");
        let text = fs::read(&path).expect("written");
        assert!(text.ends_with(b"x") && text.len() < 4 << 20, "what is too much is left out");
        let first = format!("{} one\n", process::id());
        assert!(text.starts_with(first.as_bytes()));
        fs::write(&path, vec![b'z'; 5 << 20]).expect("written");
        say(&Log::new(path.clone()), b"three\n");
        assert_eq!(fs::read(&path).expect("new"), format!("{} three\n", process::id()).as_bytes());
        assert_eq!(fs::read(path.with_extension("old")).expect("old").len(), 5 << 20);
    }

    #[test]
    fn a_log_that_cannot_be_written_stops_no_statement() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let log = Log::new(directory.path().to_path_buf());
        (&log).write_all(b"lost\n").expect("a log takes everything");
    }
}
