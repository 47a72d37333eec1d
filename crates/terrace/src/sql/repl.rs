//! The prompt.

use std::fs;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::time::Duration;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use crate::error::{CliError, Result};
use crate::log::state_file;
use crate::sql::complete::{Names, SqlHelper};
use crate::sql::describe;
use crate::sql::meta::{self, HELP, Meta};
use crate::sql::run::Runner;
use crate::sql::split::statements;

/// Statements that the history keeps.
const HISTORY_ENTRIES: usize = 10_000;

/// A prompt on a terminal.
pub struct Repl<'a> {
    runtime: &'a Runtime,
    runner: Runner,
    editor: Editor<SqlHelper, FileHistory>,
    names: Names,
    history: Option<PathBuf>,
    timing: bool,
}

impl<'a> Repl<'a> {
    /// A prompt with the history of earlier ones.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub fn new(runtime: &'a Runtime, runner: Runner) -> Result<Repl<'a>> {
        let config = Config::builder()
            .max_history_size(HISTORY_ENTRIES)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let names = Names::default();
        let mut editor = Editor::with_history(config.clone(), FileHistory::with_config(&config))?;
        editor.set_helper(Some(SqlHelper { names: names.clone() }));
        let history = state_file("history");
        if let Some(file) = history.as_ref().filter(|file| file.exists()) {
            // A history that cannot be read is no reason to refuse work.
            if let Err(error) = editor.load_history(file) {
                tracing::warn!(file = %file.display(), %error, "the history cannot be read");
            }
        }
        Ok(Repl { runtime, runner, editor, names, history, timing: false })
    }

    /// Reads and runs until the user leaves.
    ///
    /// # Errors
    /// When the terminal fails. A statement that fails is reported and the prompt stays.
    pub fn run(mut self) -> Result<()> {
        loop {
            let context = self.runner.session().context();
            self.names.set(self.runtime.block_on(describe::words(context)));
            match self.editor.readline("terrace> ") {
                Ok(line) => {
                    if !self.take(&line)? {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.save_history();
        Ok(())
    }

    /// Handles what was typed; false to leave.
    fn take(&mut self, line: &str) -> Result<bool> {
        if line.trim().is_empty() {
            return Ok(true);
        }
        self.editor.add_history_entry(line.trim())?;
        // Saved at once: a history that a crash takes with it is none.
        self.save_history();
        if let Some(command) = meta::parse(line) {
            return self.command(command);
        }
        for statement in statements(line) {
            if !self.statement(statement)? {
                break;
            }
        }
        Ok(true)
    }

    /// Runs a statement; false when the ones after it must not run.
    fn statement(&mut self, statement: &str) -> Result<bool> {
        self.runner.forget_interrupts();
        match self.runtime.block_on(self.runner.run(statement)) {
            Ok(elapsed) => {
                if self.timing {
                    writeln!(stdout(), "{}", timing_note(elapsed))?;
                }
                Ok(true)
            }
            Err(error) if error.is_broken_pipe() => Err(error),
            Err(CliError::Interrupted) => {
                writeln!(stderr(), "cancelled")?;
                Ok(false)
            }
            Err(error) => {
                writeln!(stderr(), "error: {error}")?;
                Ok(false)
            }
        }
    }

    fn command(&mut self, command: Meta) -> Result<bool> {
        let context = self.runner.session().context();
        let mut out = stdout();
        match command {
            Meta::Quit => return Ok(false),
            Meta::Help => write!(out, "{HELP}")?,
            Meta::Timing => {
                self.timing = !self.timing;
                writeln!(out, "timing is {}", if self.timing { "on" } else { "off" })?;
            }
            Meta::Describe(None) => {
                let grid = self.runtime.block_on(describe::tables(context));
                write!(out, "{grid}")?;
            }
            Meta::Describe(Some(name)) => {
                match self.runtime.block_on(describe::columns(context, &name)) {
                    Ok(grid) => write!(out, "{grid}")?,
                    Err(error) => writeln!(stderr(), "error: {error}")?,
                }
            }
            Meta::Unknown(text) => {
                writeln!(stderr(), "error: there is no command {text}; \\? lists them")?;
            }
        }
        Ok(true)
    }

    fn save_history(&mut self) {
        let Some(file) = &self.history else { return };
        let saved = file.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(error) = saved {
            tracing::warn!(file = %file.display(), %error, "the history cannot be written");
            return;
        }
        if let Err(error) = self.editor.save_history(file) {
            tracing::warn!(file = %file.display(), %error, "the history cannot be written");
        }
    }
}

fn timing_note(elapsed: Duration) -> String {
    format!("{:.3} s", elapsed.as_secs_f64())
}
