//! Interactive prompt.

use std::fs;
use std::io::{Write, stderr};
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use crate::error::{CliError, Result};
use crate::log::state_file;
use crate::sql::complete::{Names, SqlHelper};
use crate::sql::describe;
use crate::sql::meta;
use crate::sql::run::{Next, Runner};
use crate::sql::split::statements;

/// Maximum number of statements in the history.
const HISTORY_ENTRIES: usize = 10_000;

/// A prompt on a terminal.
pub struct Repl<'a> {
    runtime: &'a Runtime,
    runner: Runner,
    editor: Editor<SqlHelper, FileHistory>,
    names: Names,
    history: Option<PathBuf>,
}

impl<'a> Repl<'a> {
    /// Creates a prompt with the history of earlier ones.
    ///
    /// # Errors
    /// If the terminal cannot be used.
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
            // An unreadable history is only a warning.
            if let Err(error) = editor.load_history(file) {
                tracing::warn!(file = %file.display(), %error, "the history cannot be read");
            }
        }
        Ok(Repl { runtime, runner, editor, names, history })
    }

    /// Reads and runs statements until the user quits.
    ///
    /// # Errors
    /// If the terminal fails. A failed statement is reported, and the prompt continues.
    pub fn run(mut self) -> Result<()> {
        loop {
            let context = self.runner.session().context();
            self.names.set(self.runtime.block_on(describe::words(context)));
            match self.editor.readline("terrace> ") {
                Ok(line) => {
                    if self.take(&line)? == Some(Next::Quit) {
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

    /// Runs the statements or the command of an input.
    fn take(&mut self, line: &str) -> Result<Option<Next>> {
        if line.trim().is_empty() {
            return Ok(None);
        }
        self.editor.add_history_entry(line.trim())?;
        // Saved at once, so that the history survives a crash.
        self.save_history();
        // The words `help` and `quit` are commands here, besides those that begin with a backslash.
        if let Some(command) = meta::parse(line) {
            return self.done(|runtime, runner| runtime.block_on(runner.command(command)));
        }
        for statement in statements(line) {
            match self.done(|runtime, runner| runtime.block_on(runner.run(statement)))? {
                Some(Next::More) => {}
                Some(Next::Quit) => return Ok(Some(Next::Quit)),
                None => break,
            }
        }
        Ok(Some(Next::More))
    }

    /// Runs a statement or command and reports its error; `None` if later statements must not run.
    fn done(
        &mut self,
        run: impl FnOnce(&Runtime, &mut Runner) -> Result<Next>,
    ) -> Result<Option<Next>> {
        self.runner.forget_interrupts();
        match run(self.runtime, &mut self.runner) {
            Ok(next) => return Ok(Some(next)),
            Err(error) if error.is_broken_pipe() => return Err(error),
            Err(CliError::Interrupted) => writeln!(stderr(), "cancelled")?,
            Err(error) => writeln!(stderr(), "error: {error}")?,
        }
        Ok(None)
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
