//! Running of `CREATE TABLE ... (LIKE ...)`.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableLike, CreateTableLikeDefaults, CreateTableLikeKind, ObjectName,
    Statement as SqlStatement,
};
use terrace_table::catalog::{IfExists, Properties, Snapshot, TableDefinition};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use crate::access::Privilege;
use crate::session::notice::Notice;
use crate::session::options::TableOptions;
use crate::session::owned_sequences;
use crate::session::refusal::refused;
use crate::session::spelling::LIKE;
use crate::session::state::{Planned, Session};

/// Returns the CREATE TABLE of a statement if it has LIKE; `None` for any other statement.
pub(in crate::session) fn of(statement: &Statement) -> Option<&CreateTable> {
    let Statement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::CreateTable(create) if create.like.is_some() => Some(create),
        _ => None,
    }
}

/// Properties that LIKE copies from the source table in addition to its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Included {
    defaults: bool,
    constraints: bool,
    generated: bool,
    identity: bool,
    comments: bool,
}

impl Included {
    const ALL: Self =
        Self { defaults: true, constraints: true, generated: true, identity: true, comments: true };

    /// Reads the INCLUDING and EXCLUDING options, which [`crate::session::spelling`] has rewritten
    /// as `+all -identity`.
    fn read(text: &str) -> Result<Self, SqlError> {
        let mut included = Self::default();
        for option in text.split_whitespace() {
            let (is_included, word) = match option.strip_prefix('+') {
                Some(word) => (true, word),
                None => (false, option.trim_start_matches('-')),
            };
            match word {
                "all" if is_included => included = Self::ALL,
                "all" => included = Self::default(),
                "defaults" => included.defaults = is_included,
                "constraints" => included.constraints = is_included,
                "generated" => included.generated = is_included,
                "identity" => included.identity = is_included,
                "comments" => included.comments = is_included,
                // A table has none of these.
                "indexes" | "storage" | "statistics" | "compression" => {}
                other => {
                    let known = "ALL, DEFAULTS, CONSTRAINTS, GENERATED, IDENTITY or COMMENTS";
                    return Err(refused(&format!("LIKE with {other}"), &format!("say {known}")));
                }
            }
        }
        Ok(included)
    }
}

/// The name of the table that a LIKE copies, and the properties that the new table gets from it.
fn source_of(like: &CreateTableLike) -> Result<(ObjectName, Included), SqlError> {
    let mut name = like.name.clone();
    let last = name.0.last().and_then(|part| part.as_ident());
    let options = last.filter(|_| name.0.len() > 1).and_then(|it| it.value.strip_prefix(LIKE));
    let included = match options {
        Some(options) => {
            let included = Included::read(options)?;
            name.0.pop();
            included
        }
        None => Included {
            defaults: like.defaults == Some(CreateTableLikeDefaults::Including),
            ..Included::default()
        },
    };
    Ok((name, included))
}

impl Session {
    /// Creates a table with the columns of another one, their NOT NULL, and the other properties
    /// that the statement includes.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::Exists`], [`SqlError::Denied`]; errors of the catalog.
    pub(in crate::session) async fn create_like(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        create: &CreateTable,
        options: TableOptions,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let (CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) =
            create.like.as_ref().ok_or_else(|| refused("LIKE without a table", "name one"))?;
        self.refuse_change(scope, "a definition")?;
        let if_exists = match (create.if_not_exists, create.or_replace) {
            (true, _) => IfExists::Keep,
            (false, true) => IfExists::Replace,
            (false, false) => IfExists::Fail,
        };
        let (source, included) = source_of(like)?;
        let source = self.own_name(state, object_name_to_table_reference(source, true)?)?;
        let missing = || SqlError::Missing { name: format!("{}.{}", source.schema, source.name) };
        let (source, _) = snapshot.table(&source.schema, &source.name).ok_or_else(missing)?;
        let (schema, name) = (source.schema_name(), Some(source.name()));
        self.rights(snapshot).require(Privilege::Select, schema, name)?;
        let own = object_name_to_table_reference(create.name.clone(), true)?;
        let own = match options.is_temporary {
            true => self.make_temporary(scope, &own).await?,
            false => self.name_to_make(state, snapshot, own, if_exists == IfExists::Replace)?,
        };
        let mut properties = copied(&source, included);
        properties.on_commit = options.on_commit;
        self.note_on_commit(options.on_commit);
        let (catalog, named) = (self.engine.catalog(), (own.schema.as_str(), own.name.as_str()));
        let sequences = match included.identity {
            true => owned_sequences::copy(catalog, snapshot, named, &source, &mut properties),
            false => vec![],
        };
        let definition = TableDefinition {
            schema_name: own.schema,
            name: own.name.clone(),
            columns: Arc::clone(source.schema()),
            encoding: options.encoding,
            properties,
            owner: self.role().as_deref().map(str::to_owned),
        };
        let made = catalog.create_table_with(scope, definition, sequences, if_exists).await?;
        if made.is_none() {
            self.notice(Notice::relation_exists(&own.name));
        }
        Ok(Planned::nothing())
    }
}

/// The properties of `source` that are included, except identity columns and their sequences.
fn copied(source: &Table, included: Included) -> Properties {
    let mut properties = Properties::default();
    for (column, of_source) in &source.properties().columns {
        properties.change(column, |column| {
            if included.defaults && of_source.identity.is_none() {
                column.default.clone_from(&of_source.default);
            }
            if included.generated {
                column.generated.clone_from(&of_source.generated);
            }
            if included.comments {
                column.comment.clone_from(&of_source.comment);
            }
        });
    }
    if included.constraints {
        properties.checks.clone_from(&source.properties().checks);
    }
    properties
}
