//! Runs statements and commands and writes their results; Ctrl-C cancels them.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum as _;
use datafusion::arrow::array::timezone::Tz;
use futures::{FutureExt, StreamExt};
use terrace_server::ColumnNames;
use terrace_sql::interrupt::{Interruptible, Stop};
use terrace_sql::session::{SessionStatement, statement_texts};
use terrace_sql::{QueryHandle, Session, SqlError};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Format;
use crate::error::{CliError, Result};
use crate::sql::meta::{self, HELP, Meta};
use crate::sql::print::{Printer, Style, with_moments};
use crate::sql::progress::Progress;
use crate::sql::split::statements;
use crate::sql::{copy, definition, describe, names, position};

/// Bytes of output that are buffered before they are written.
const OUTPUT_BYTES: usize = 1 << 16;

/// Maximum depth of nested files (`\i`).
const INCLUDES_MAX: usize = 16;

/// Runs statements and commands of one session.
pub struct Runner {
    session: Session,
    style: Style,
    interrupts: Signal,
    /// True once Ctrl-C has been pressed since the beginning of the current statement.
    is_interrupted: Arc<AtomicBool>,
    /// Directory of the tables, for the list of databases.
    data: String,
    timing: bool,
    /// Number of nested files that are running.
    includes: usize,
}

/// The step after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Continue with the next statement.
    More,
    /// Quit the program.
    Quit,
}

impl Runner {
    /// Creates a runner; from now on Ctrl-C cancels statements and no longer ends the program.
    ///
    /// # Errors
    /// If the signal handler cannot be installed.
    pub fn new(session: Session, style: Style, data: String) -> Result<Runner> {
        let interrupts = signal(SignalKind::interrupt())?;
        let is_interrupted = Arc::<AtomicBool>::default();
        // A thread that plans a statement polls no signal.
        tokio::spawn(watched(signal(SignalKind::interrupt())?, Arc::clone(&is_interrupted)));
        let (timing, includes) = (false, 0);
        Ok(Runner { session, style, interrupts, is_interrupted, data, timing, includes })
    }

    /// Returns the session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Discards a Ctrl-C that came while no statement ran.
    pub fn forget_interrupts(&mut self) {
        while self.interrupts.recv().now_or_never().flatten().is_some() {}
    }

    /// Returns the stop of a statement that begins: it becomes due, and ends planning, at the next
    /// Ctrl-C.
    fn stop(&self) -> Arc<Stop> {
        self.is_interrupted.store(false, Ordering::Relaxed);
        let is_interrupted = Arc::clone(&self.is_interrupted);
        Stop::new(move || is_interrupted.load(Ordering::Relaxed))
    }

    /// Runs one statement and writes its result to standard output, or one command.
    ///
    /// # Errors
    /// [`CliError::Interrupted`] if Ctrl-C cancelled the statement; otherwise errors of the engine
    /// or of the output.
    pub async fn run(&mut self, statement: &str) -> Result<Next> {
        if statement.trim_start().starts_with(['\\', '.'])
            && let Some(command) = meta::parse(statement)
        {
            return Box::pin(self.command(command)).await;
        }
        let began = Instant::now();
        let (stop, session, style) = (self.stop(), &self.session, self.style);
        let ran = Interruptible::new(Arc::clone(&stop), run(session, style, statement));
        tokio::select! {
            biased;
            _ = self.interrupts.recv() => return Err(CliError::Interrupted),
            result = ran => match stop.has_stopped() {
                true => return Err(CliError::Interrupted),
                false => result?,
            },
        }
        if self.timing {
            writeln!(io::stdout(), "{:.3} s", began.elapsed().as_secs_f64())?;
        }
        Ok(Next::More)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub async fn command(&mut self, command: Meta) -> Result<Next> {
        let mut out = io::stdout();
        match command {
            Meta::Quit => return Ok(Next::Quit),
            Meta::Help => write!(out, "{HELP}")?,
            Meta::Timing(on) => {
                self.timing = on.unwrap_or(!self.timing);
                writeln!(out, "timing is {}", on_or_off(self.timing))?;
            }
            Meta::Expanded => {
                self.style.is_expanded = !self.style.is_expanded;
                writeln!(out, "expanded display is {}", on_or_off(self.style.is_expanded))?;
            }
            Meta::Mode(format) => self.set_format(format, &mut out)?,
            Meta::Include(file) => return self.include(&file).await,
            Meta::Copy(copy) => {
                let (stop, session) = (self.stop(), &self.session);
                let ran = Interruptible::new(Arc::clone(&stop), copy::run(session, &copy));
                let rows = tokio::select! {
                    biased;
                    _ = self.interrupts.recv() => return Err(CliError::Interrupted),
                    result = ran => match stop.has_stopped() {
                        true => return Err(CliError::Interrupted),
                        false => result?,
                    },
                };
                writeln!(out, "{rows} rows copied")?;
            }
            Meta::Refused(instead) => return Err(CliError::Usage(instead.to_owned())),
            Meta::Unknown(text) => {
                let text = format!("there is no command {text}; \\? lists them");
                return Err(CliError::Usage(text));
            }
            list => write!(out, "{}", self.listed(list).await?)?,
        }
        Ok(Next::More)
    }

    /// Returns the output of a command that lists objects of the database.
    async fn listed(&self, command: Meta) -> Result<String> {
        let context = self.session.context();
        Ok(match command {
            Meta::List(kind) => describe::tables(&self.session, kind).await.to_string(),
            Meta::Describe(name) => describe::columns(&self.session, &name).await?.to_string(),
            Meta::Functions(begin) => describe::functions(context, begin.as_deref()).to_string(),
            Meta::Schemas => describe::schemas(context).to_string(),
            Meta::Databases => describe::databases(&self.data).to_string(),
            Meta::Definitions(name) => {
                definition::definitions(&self.session, name.as_deref()).await?
            }
            _ => String::new(),
        })
    }

    /// Changes the format of results, and prints it.
    fn set_format(&mut self, format: Option<Format>, out: &mut impl Write) -> Result<()> {
        self.style.format = format.unwrap_or(self.style.format);
        let value = self.style.format.to_possible_value();
        let name = value.as_ref().map_or("", |value| value.get_name());
        Ok(writeln!(out, "the format of results is {name}")?)
    }

    /// Runs the statements and commands of a file.
    async fn include(&mut self, file: &str) -> Result<Next> {
        if self.includes == INCLUDES_MAX {
            let text = format!("\\i {file}: files run each other {INCLUDES_MAX} deep");
            return Err(CliError::Usage(text));
        }
        let text = std::fs::read_to_string(file)
            .map_err(|source| CliError::File { path: file.into(), source })?;
        self.includes += 1;
        let mut next = Ok(Next::More);
        for statement in statements(&text) {
            next = Box::pin(self.run(statement)).await;
            if !matches!(next, Ok(Next::More)) {
                break;
            }
        }
        self.includes -= 1;
        next
    }
}

/// Sets `is_interrupted` at each Ctrl-C.
async fn watched(mut interrupts: Signal, is_interrupted: Arc<AtomicBool>) {
    while interrupts.recv().await.is_some() {
        is_interrupted.store(true, Ordering::Relaxed);
    }
}

fn on_or_off(switch: bool) -> &'static str {
    if switch { "on" } else { "off" }
}

async fn run(session: &Session, style: Style, statement: &str) -> Result<()> {
    let parsed = session.parse(statement);
    let parsed = parsed.map_err(|error| position::shown(error, statement))?;
    let texts = statement_texts(statement, parsed.len());
    for (statement, text) in parsed.into_iter().zip(texts) {
        let ran = run_one(session, style, statement, text).await;
        for notice in session.take_notices() {
            writeln!(io::stderr(), "{notice}")?;
        }
        ran?;
    }
    Ok(())
}

async fn run_one(
    session: &Session,
    style: Style,
    statement: SessionStatement,
    text: Option<&str>,
) -> Result<()> {
    if let SessionStatement::Copy(copy) = &statement
        && !copy.is_in
    {
        return copy::print(session, copy).await.map(drop);
    }
    let names = ColumnNames::of(&statement);
    let handle = Box::pin(session.execute_as(statement, text)).await?;
    let output = BufWriter::with_capacity(OUTPUT_BYTES, io::stdout());
    let zone = zone(session)?;
    write_result(handle, names, style, zone, output).await
}

/// The time zone in which a session shows timestamps.
fn zone(session: &Session) -> Result<Tz> {
    let state = session.context().state_ref();
    let state = state.read();
    let name = state.config_options().execution.time_zone.as_deref().unwrap_or("UTC");
    let known = name.parse::<Tz>();
    known.map_err(|_| CliError::Usage(format!("the time zone {name:?} of the session is unknown")))
}

async fn write_result(
    mut handle: QueryHandle,
    names: ColumnNames,
    style: Style,
    zone: Tz,
    output: impl Write,
) -> Result<()> {
    let progress = Progress::watch(handle.query().clone());
    if handle.schema.fields().is_empty() {
        // There is nothing to print, but the statement runs only as its stream is read.
        while let Some(batch) = handle.stream.next().await {
            batch.map_err(SqlError::from)?;
        }
        return Ok(());
    }
    let schema = names::printed(names, &handle.schema, style.format);
    // A plan is printed whole.
    let is_plan = matches!(&schema.fields()[..], [field] if field.name() == "QUERY PLAN");
    let style = Style { rows: if is_plan { 0 } else { style.rows }, ..style };
    let mut printer = Printer::new(style, &schema, output)?;
    while let Some(batch) = handle.stream.next().await {
        let batch = batch.map_err(SqlError::from)?;
        let batch = names::renamed(&batch, &schema).map_err(SqlError::from)?;
        printer.write(&with_moments(batch, style, zone)?)?;
    }
    drop(progress);
    printer.finish()
}
