//! Execution of EXPORT DATABASE and IMPORT DATABASE.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use futures::FutureExt as _;
use terrace_exec::run_blocking;
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;
use terrace_table::write::CountExec;

use crate::session::copy::{CopySource, list};
use crate::session::database_copy::DatabaseCopy;
use crate::session::database_script::{definitions, given_columns, literal, positions, tables};
use crate::session::file_copy::{FileCopy, copy_to};
use crate::session::file_options::{FileFormat, FileOptions};
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::sql_type::{self, identifier};
use crate::session::state::{Planned, Session};
use crate::session::statement::SessionStatement;
use crate::session::words;

/// File of the statements that create the objects.
const SCHEMA: &str = "schema.sql";
/// File of the statements that load the rows.
const LOAD: &str = "load.sql";

impl Session {
    /// Plans EXPORT DATABASE, or runs IMPORT DATABASE.
    ///
    /// # Errors
    /// [`SqlError::Denied`]; errors of the files and of the statements in them.
    pub(in crate::session) async fn copy_database(
        &self,
        copy: DatabaseCopy,
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        self.follow_engine()?;
        let (state, snapshot) = self.state_in(scope)?;
        self.rights(&snapshot).require_superuser(&copy.to_string())?;
        let directory = PathBuf::from(&copy.directory);
        match copy.export {
            Some((format, options)) => {
                let export = Export { directory, format, options };
                Box::pin(self.export(export, (state, &snapshot), scope, reader)).await
            }
            None => {
                self.refuse_change(scope, "IMPORT DATABASE")?;
                self.import(&directory, &state, scope).await?;
                Ok(Planned::nothing())
            }
        }
    }

    /// The plan that writes one file of rows per table, all as of one snapshot, and then the files
    /// of statements.
    async fn export(
        &self,
        export: Export,
        (mut state, snapshot): (SessionState, &Snapshot),
        scope: &Scope,
        reader: Arc<Reader>,
    ) -> Result<Planned, SqlError> {
        state.config_mut().set_extension(Arc::clone(&reader));
        let schema = definitions(&state, snapshot)?;
        let (mut load, mut plans) = (String::new(), Vec::new());
        let mut taken = HashSet::new();
        for table in tables(snapshot) {
            let columns = given_columns(&table);
            if columns.is_empty() {
                continue;
            }
            export.refuse_nested(&table)?;
            let path = export.path(&table, &mut taken);
            load.push_str(&export.load_statement(&table, &columns, &path));
            let statement = export.copy_statement(&table, columns, &path)?;
            let SessionStatement::Sql(statement) = statement else { continue };
            let plan = self.logical_plan(&state, snapshot, *statement).await?;
            let reader = Arc::clone(&reader);
            let plan = self.physical_plan(state.clone(), plan, snapshot, scope, reader).await?;
            plans.push(plan.plan);
        }
        load.push_str(&positions(snapshot));
        let written = Arc::new(Written { directory: export.directory, plans, schema, load });
        let what = format!("ExportDatabase: directory={}", written.directory.display());
        let plan = CountExec::definition(what, move |context| {
            let written = Arc::clone(&written);
            async move { written.write(context).await }.boxed()
        });
        Ok(Planned { plan, watched: None })
    }

    /// Runs the statements of a directory that EXPORT DATABASE has written, in the current
    /// transaction, or else in one of its own.
    async fn import(
        &self,
        directory: &Path,
        state: &SessionState,
        scope: &Scope,
    ) -> Result<(), SqlError> {
        let statements = statements_of(directory)?;
        let path = state.config_options().catalog.default_schema.clone();
        let is_alone = matches!(scope, Scope::Alone(_));
        if is_alone {
            self.sql("BEGIN").await?;
        }
        let done = self.run_all(statements).await;
        let restored = self.sql(&format!("SET search_path = {}", literal(&path))).await;
        let done = done.and(restored.map(drop));
        if is_alone {
            let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
            let ended = self.sql(end).await;
            return done.and(ended.map(drop));
        }
        done
    }

    async fn run_all(&self, statements: Vec<SessionStatement>) -> Result<(), SqlError> {
        for statement in statements {
            self.execute(statement).await?.collect().await?;
        }
        Ok(())
    }
}

/// The statements of the script files in `directory`. Their COPY statements read the files of rows
/// from `directory` if it has them, even if the export was written to another path.
fn statements_of(directory: &Path) -> Result<Vec<SessionStatement>, SqlError> {
    let mut statements = Vec::new();
    for name in [SCHEMA, LOAD] {
        let path = directory.join(name);
        let text = run_blocking(|| fs::read_to_string(&path)).map_err(|error| {
            let what = format!("IMPORT DATABASE: cannot read {}: {error}", path.display());
            refused(&what, "name a directory that EXPORT DATABASE has written")
        })?;
        statements.extend(parse(&text)?);
    }
    for statement in &mut statements {
        let SessionStatement::CopyFrom(copy) = statement else { continue };
        let name = Path::new(&copy.path).file_name();
        if let Some(moved) = name.map(|name| directory.join(name)).filter(|path| path.is_file()) {
            copy.path = moved.display().to_string();
        }
    }
    Ok(statements)
}

/// Directory and format of an export.
struct Export {
    directory: PathBuf,
    format: FileFormat,
    options: FileOptions,
}

impl Export {
    /// Refuses nested columns in CSV and text files, from which they cannot be read back.
    fn refuse_nested(&self, table: &Table) -> Result<(), SqlError> {
        if matches!(self.format, FileFormat::Parquet | FileFormat::Json) {
            return Ok(());
        }
        let is_nested = |data_type: &DataType| data_type.is_nested();
        match table.schema().fields().iter().find(|field| is_nested(field.data_type())) {
            None => Ok(()),
            Some(field) => Err(refused(
                &format!(
                    "EXPORT DATABASE as text of column {} of table {}, which is {}",
                    field.name(),
                    table.full_name(),
                    sql_type::of(field)
                ),
                "say (FORMAT parquet)",
            )),
        }
    }

    /// The path of the file of a table's rows. `taken` has the file names of other tables, in lower
    /// case, which it does not reuse.
    fn path(&self, table: &Table, taken: &mut HashSet<String>) -> PathBuf {
        let plain = |name: &str| -> String {
            let letter = |it: char| if it.is_alphanumeric() || it == '-' { it } else { '_' };
            name.chars().map(letter).collect()
        };
        let name = match table.schema_name() {
            "public" => plain(table.name()),
            schema => format!("{}_{}", plain(schema), plain(table.name())),
        };
        let numbered = (2_u32..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let name = names.find(|name| taken.insert(name.to_lowercase())).unwrap_or(name);
        self.directory.join(format!("{name}.{}", self.extension()))
    }

    fn extension(&self) -> String {
        let format = match self.format {
            FileFormat::Csv => "csv",
            FileFormat::Text => "txt",
            FileFormat::Json => "json",
            FileFormat::Parquet => return "parquet".to_owned(),
        };
        let compression = match self.options.compression.as_deref() {
            Some("gzip") => ".gz",
            Some("zstd") => ".zst",
            Some("bzip2") => ".bz2",
            Some("xz") => ".xz",
            _ => "",
        };
        format!("{format}{compression}")
    }

    /// The statement that writes the rows of a table.
    fn copy_statement(
        &self,
        table: &Table,
        columns: Vec<Ident>,
        path: &Path,
    ) -> Result<SessionStatement, SqlError> {
        let names = [table.schema_name(), table.name()];
        let name = ObjectName::from(names.map(|name| Ident::with_quote('"', name)).to_vec());
        let source = CopySource::Table(name, columns);
        let target = path.display().to_string();
        let copy = copy_to(source, target, self.format, self.options.clone());
        match copy.map_err(words::refused)? {
            FileCopy::Out(statement) => Ok(SessionStatement::Sql(statement)),
            FileCopy::In(copy) => Ok(SessionStatement::CopyFrom(copy)),
        }
    }

    /// The text of the statement that reads the rows of a table.
    fn load_statement(&self, table: &Table, columns: &[Ident], path: &Path) -> String {
        let name = format!("{}.{}", identifier(table.schema_name()), identifier(table.name()));
        let (columns, path) = (list(columns), literal(&path.display().to_string()));
        format!("COPY {name} ({columns}) FROM {path} ({});\n", self.load_options().join(", "))
    }

    fn load_options(&self) -> Vec<String> {
        let FileOptions { header, delimiter, quote, escape, null, compression, .. } = &self.options;
        let format = match self.format {
            FileFormat::Parquet => return vec!["FORMAT parquet".to_owned()],
            FileFormat::Csv => "csv",
            FileFormat::Text => "text",
            FileFormat::Json => "json",
        };
        let mut options = vec![format!("FORMAT {format}")];
        if self.format != FileFormat::Json {
            let header = header.unwrap_or(self.format == FileFormat::Csv);
            options.push(format!("HEADER {header}"));
        }
        let byte = |byte: &u8| literal(&char::from(*byte).to_string());
        for (name, value) in [("DELIMITER", delimiter), ("QUOTE", quote), ("ESCAPE", escape)] {
            options.extend(value.as_ref().map(|value| format!("{name} {}", byte(value))));
        }
        options.extend(null.as_ref().map(|null| format!("NULL {}", literal(null))));
        options.extend(compression.as_ref().map(|name| format!("COMPRESSION {name}")));
        options
    }
}

/// The contents of an export: the plans that write the files of rows, and the texts of the script
/// files.
struct Written {
    directory: PathBuf,
    plans: Vec<Arc<dyn ExecutionPlan>>,
    schema: String,
    load: String,
}

impl Written {
    /// Writes the files. Those of the statements are written last.
    async fn write(&self, context: Arc<TaskContext>) -> Result<(), DataFusionError> {
        let failed = |path: &Path, error: std::io::Error| {
            exec_datafusion_err!("EXPORT DATABASE: cannot write {}: {error}", path.display())
        };
        let directory = &self.directory;
        run_blocking(|| fs::create_dir_all(directory)).map_err(|error| failed(directory, error))?;
        for plan in &self.plans {
            collect(Arc::clone(plan), Arc::clone(&context)).await?;
        }
        for (name, text) in [(LOAD, &self.load), (SCHEMA, &self.schema)] {
            let path = directory.join(name);
            run_blocking(|| fs::write(&path, text)).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}
