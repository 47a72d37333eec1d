//! The statements that create the objects of a database and load its rows: `schema.sql` and
//! `load.sql` of EXPORT DATABASE.
//!
//! An object follows those that it depends on: schemas, types, sequences and tables, then views and
//! functions in the order of their dependencies. Owners, privileges and temporary objects are left
//! out.

use std::fmt::Write as _;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::Ident;
use terrace_table::catalog::{Sequence, Snapshot, TextKind};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::creation::table_definition;
use super::dependencies::Kind;
use super::dependencies::order::creation_order;
use super::owned_sequences::owner_of;
use super::routines::lookup::stored;
use super::routines::routine::Form;
use super::sql_type::identifier;
use crate::names::SearchPath;
use crate::view;

/// Prefix of the names of schemas of temporary objects.
const TEMPORARY: &str = "pg_temp_";
/// The schema that every database has.
const PUBLIC: &str = "public";

/// All schemas except those of temporary objects.
pub(super) fn schemas(snapshot: &Snapshot) -> Vec<String> {
    let mut schemas = snapshot.schemas();
    schemas.retain(|name| !name.starts_with(TEMPORARY));
    schemas
}

/// The statements that create all objects.
///
/// # Errors
/// If a stored text is damaged.
pub(super) fn definitions(state: &SessionState, snapshot: &Snapshot) -> Result<String, SqlError> {
    let mut script = Script::default();
    let schemas = schemas(snapshot);
    for schema in schemas.iter().filter(|schema| *schema != PUBLIC) {
        script.statement(&format!("CREATE SCHEMA IF NOT EXISTS {}", identifier(schema)));
    }
    for schema in &schemas {
        for (_, object) in snapshot.texts(TextKind::Type, schema) {
            script.statement(&object.text);
        }
    }
    for schema in &schemas {
        for sequence in snapshot.sequences(schema) {
            if identity_of(snapshot, &sequence).is_none() {
                let options = options(&sequence);
                script.statement(&format!("CREATE SEQUENCE {}{options}", full(&sequence)));
            }
        }
    }
    for table in tables(snapshot) {
        // Defaults may name sequences of the table's schema without it.
        script.within(&match table.schema_name() {
            PUBLIC => PUBLIC.to_owned(),
            schema => format!("{PUBLIC}, {}", identifier(schema)),
        });
        script.statement(&table_definition(&table));
    }
    for sequence in schemas.iter().flat_map(|schema| snapshot.sequences(schema)) {
        if let Some(name) = identity_of(snapshot, &sequence) {
            script.statement(&format!("ALTER SEQUENCE {name}{}", options(&sequence)));
        } else if let Some((table, column)) = owner_of(snapshot, &sequence) {
            let table = format!("{}.{}", identifier(table.schema_name()), identifier(table.name()));
            let (name, column) = (full(&sequence), identifier(&column));
            script.statement(&format!("ALTER SEQUENCE {name} OWNED BY {table}.{column}"));
        }
    }
    for object in creation_order(state, snapshot)? {
        let (schema, name) = object.full_name();
        if schema.starts_with(TEMPORARY) {
            continue;
        }
        if *object.kind() == Kind::View {
            let Some(text) = snapshot.view(schema, name) else { continue };
            let (path, definition) = view::creation(&text, (schema, name))?;
            script.within(path);
            script.statement(&definition);
        } else if let Some(object) = snapshot.text(TextKind::Function, schema, name) {
            script.within(&identifier(schema));
            script.statement(&object.text);
        }
    }
    script.within(PUBLIC);
    for schema in &schemas {
        script.comments(snapshot, schema);
        script.comments_on_texts(snapshot, schema)?;
    }
    Ok(script.text)
}

/// The statements that set all sequences to their current values.
pub(super) fn positions(snapshot: &Snapshot) -> String {
    let mut script = Script::default();
    for schema in schemas(snapshot) {
        for sequence in snapshot.sequences(&schema) {
            let name = identity_of(snapshot, &sequence).unwrap_or_else(|| full(&sequence));
            let (value, is_called) = sequence.last();
            let name = literal(&name);
            script.statement(&format!("SELECT setval({name}, {value}, {is_called})"));
        }
    }
    script.text
}

/// All tables except temporary ones.
pub(super) fn tables(snapshot: &Snapshot) -> Vec<std::sync::Arc<Table>> {
    let mut tables = Vec::new();
    for schema in schemas(snapshot) {
        let names = snapshot.table_names(&schema).into_iter();
        tables.extend(names.filter_map(|name| Some(snapshot.table(&schema, &name)?.0)));
    }
    tables
}

/// Returns a text as an SQL string literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The columns of a table that are not generated, quoted.
pub(super) fn given_columns(table: &Table) -> Vec<Ident> {
    let fields = table.schema().fields().iter();
    let given = fields.filter(|field| table.properties().generated(field.name()).is_none());
    given.map(|field| Ident::with_quote('"', field.name())).collect()
}

fn full(sequence: &Sequence) -> String {
    format!("{}.{}", identifier(sequence.schema_name()), identifier(sequence.name()))
}

/// The name that the sequence of an identity column has when its table is created; `None` for a
/// sequence that is created by itself.
fn identity_of(snapshot: &Snapshot, sequence: &Sequence) -> Option<String> {
    let schema = sequence.schema_name();
    let (table, column) = owner_of(snapshot, sequence)?;
    table.properties().identity(&column)?;
    let made = format!("{}_{column}_seq", table.name());
    // The sequence has another name if the table was renamed, or if the name was taken.
    let is_taken = made != sequence.name() && snapshot.has_object(schema, &made);
    let made = if is_taken { sequence.name() } else { &made };
    Some(format!("{}.{}", identifier(schema), identifier(made)))
}

/// The options of a sequence, with a blank in front.
fn options(sequence: &Sequence) -> String {
    let of = sequence.options();
    format!(
        " AS {} INCREMENT BY {} MINVALUE {} MAXVALUE {} START WITH {} CACHE {} {}",
        of.data_type.name(),
        of.increment,
        of.min,
        of.max,
        of.start,
        of.cache,
        if of.cycles { "CYCLE" } else { "NO CYCLE" }
    )
}

/// A script of SQL statements, each on a line of its own.
struct Script {
    text: String,
    /// The search path of the next statement.
    path: String,
}

impl Default for Script {
    fn default() -> Self {
        Self { text: String::new(), path: PUBLIC.to_owned() }
    }
}

impl Script {
    fn statement(&mut self, text: &str) {
        self.text.push_str(text.trim().trim_end_matches(';'));
        self.text.push_str(";\n");
    }

    /// Sets the search path of the following statements, if it is another.
    fn within(&mut self, path: &str) {
        if self.path != path {
            path.clone_into(&mut self.path);
            let names = SearchPath::parse(path);
            let names: Vec<_> = names.schemas().iter().map(|name| identifier(name)).collect();
            self.statement(&format!("SET search_path = {}", names.join(", ")));
        }
    }

    /// Adds the comments on a schema and on its tables, views and sequences.
    fn comments(&mut self, snapshot: &Snapshot, schema: &str) {
        let name = identifier(schema);
        if let Some(comment) = snapshot.comments(schema, None).and_then(|it| it.own.as_ref()) {
            self.comment("SCHEMA", &name, comment);
        }
        for table in snapshot.table_names(schema) {
            let Some((found, _)) = snapshot.table(schema, &table) else { continue };
            let table = format!("{name}.{}", identifier(&table));
            if let Some(comment) = &found.properties().comment {
                self.comment("TABLE", &table, comment);
            }
            for (column, own) in &found.properties().columns {
                if let Some(comment) = &own.comment {
                    self.comment("COLUMN", &format!("{table}.{}", identifier(column)), comment);
                }
            }
        }
        for view in snapshot.view_names(schema) {
            let Some(comments) = snapshot.comments(schema, Some(&view)) else { continue };
            let view = format!("{name}.{}", identifier(&view));
            if let Some(comment) = &comments.own {
                self.comment("VIEW", &view, comment);
            }
            for (column, comment) in &comments.columns {
                self.comment("COLUMN", &format!("{view}.{}", identifier(column)), comment);
            }
        }
        for sequence in snapshot.sequences(schema) {
            let comments = snapshot.comments(schema, Some(sequence.name()));
            if let Some(comment) = comments.and_then(|it| it.own.as_ref()) {
                self.comment("SEQUENCE", &full(&sequence), comment);
            }
        }
    }

    /// Adds the comments on the types, functions and macros of a schema.
    fn comments_on_texts(&mut self, snapshot: &Snapshot, schema: &str) -> Result<(), SqlError> {
        for (name, object) in snapshot.texts(TextKind::Type, schema) {
            if let Some(comment) = &object.comment {
                let name = format!("{}.{}", identifier(schema), identifier(&name));
                self.comment("TYPE", &name, comment);
            }
        }
        for (_, object) in snapshot.texts(TextKind::Function, schema) {
            let Some(comment) = &object.comment else { continue };
            let routine = stored(&object.text)?;
            let kind = match routine.form {
                Form::Function(_) => "FUNCTION",
                Form::Macro => "MACRO",
                Form::TableMacro => "MACRO TABLE",
            };
            // The number of parameters tells one function from others.
            let parameters = (1..=routine.parameters.len()).map(|place| format!("p{place}"));
            let parameters: Vec<_> = parameters.collect();
            let (schema, name) = (identifier(schema), identifier(&routine.name));
            self.comment(kind, &format!("{schema}.{name}({})", parameters.join(", ")), comment);
        }
        Ok(())
    }

    fn comment(&mut self, kind: &str, name: &str, comment: &str) {
        let comment = literal(comment);
        // Writing to a text cannot fail.
        let _ = writeln!(self.text, "COMMENT ON {kind} {name} IS {comment};");
    }
}
