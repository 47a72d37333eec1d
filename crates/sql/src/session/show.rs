//! SHOW, and the queries of PRAGMA: lists of the objects of the database, and settings.
//!
//! ```text
//! SHOW [ALL] TABLES;  SHOW TABLES FROM s1 LIKE 'a%';  SHOW VIEWS;  SHOW SCHEMAS;  SHOW DATABASES;
//! SHOW FUNCTIONS LIKE 'array%';  SHOW CREATE TABLE t;  SHOW search_path;
//! PRAGMA table_info('t');  PRAGMA database_list;
//! ```
//!
//! `SHOW TABLES` without further words leaves out the schemas of the engine. `SHOW COLUMNS`, and
//! DESCRIBE of queries and files are planned by DataFusion.

use std::collections::BTreeMap;

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions,
    Statement as SqlStatement,
};
use terrace_sys::size::format_bytes;
use terrace_table::error::SqlError;

use super::own_settings::PARTITIONS;
use super::pragma::Pragma;
use super::refusal::refused;
use super::rows::Rows;
use super::setting_names::{DEFAULT_SCHEMA, is_budget, known_as};
use super::sql_type;
use super::state::Session;
use crate::names::{
    CATALOG, Relation, RelationKind, SYSTEM_SCHEMA, SearchPath, is_temporary, resolve,
};

impl Session {
    /// The plan of a SHOW or of a PRAGMA; `None` for any other statement, and for those that
    /// DataFusion plans.
    pub(super) async fn show(
        &self,
        state: &SessionState,
        statement: &Statement,
    ) -> Result<Option<LogicalPlan>, SqlError> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        let statement = statement.as_ref();
        if let Some(pragma) = Pragma::of(statement)? {
            return Ok(Some(self.pragma(state, pragma).await?));
        }
        Ok(Some(match statement {
            SqlStatement::ShowVariable { variable } => {
                let words: Vec<&str> = variable.iter().map(|word| word.value.as_str()).collect();
                let name = words.join(".").to_ascii_lowercase();
                match name.as_str() {
                    "all.tables" => self.all_tables().await?.logical()?,
                    name => match self.setting(state, name) {
                        Some(value) => setting(name, &value).logical()?,
                        None => return Ok(None),
                    },
                }
            }
            SqlStatement::ShowDatabases { show_options, .. } => {
                let rows = Rows::default().texts("database_name", [Some(CATALOG)]);
                filtered(rows.logical()?, "database_name", statement, show_options)?
            }
            SqlStatement::ShowSchemas { show_options, .. } => {
                filtered(self.schemas(state).logical()?, "schema_name", statement, show_options)?
            }
            SqlStatement::ShowViews { materialized: false, show_options, .. } => {
                let is_view = |relation: &Relation| matches!(relation.kind, RelationKind::View(_));
                let rows = self.relations(state, show_options, is_view)?;
                filtered(rows.logical()?, "table_name", statement, &unplaced(show_options))?
            }
            SqlStatement::ShowTables { extended, full, show_options, .. } => {
                let is_any = *extended || *full || has_options(show_options);
                let is_shown = |it: &Relation| is_any || it.schema != SYSTEM_SCHEMA;
                let rows = self.relations(state, show_options, is_shown)?;
                filtered(rows.logical()?, "table_name", statement, &unplaced(show_options))?
            }
            SqlStatement::ShowFunctions { filter } => {
                let plan = functions(state).logical()?;
                matching(plan, "function_name", statement, filter.as_ref())?
            }
            SqlStatement::ExplainTable { table_name, .. } => {
                match self.described(state, table_name).await? {
                    Some(rows) => rows.logical()?,
                    None => return Ok(None),
                }
            }
            SqlStatement::ShowColumns { show_options, .. } => {
                let name = show_options.show_in.as_ref().and_then(|it| it.parent_name.as_ref());
                if let Some(name) = name {
                    let reference = TableReference::parse_str(&name.to_string());
                    let snapshot = self.names.current();
                    self.refuse_hidden(&resolve(state.config_options(), &snapshot, reference))?;
                }
                return Ok(None);
            }
            SqlStatement::ShowCreate { obj_type, obj_name } => {
                self.creation(state, *obj_type, obj_name)?.logical()?
            }
            _ => return Ok(None),
        }))
    }

    async fn pragma(&self, state: &SessionState, pragma: Pragma) -> Result<LogicalPlan, SqlError> {
        let rows = match pragma {
            Pragma::TableInfo(table) => self.table_info(state, &table).await?,
            Pragma::Tables => {
                let path = SearchPath::of(state.config_options());
                let relations = self.names.names().relations();
                let found = relations.into_iter().filter(|it| path.schemas().contains(&it.schema));
                let mut names: Vec<String> = found.map(|relation| relation.name).collect();
                names.sort_unstable();
                Rows::default().texts("name", names.into_iter().map(Some))
            }
            Pragma::AllTables => self.all_tables().await?,
            Pragma::Databases => Rows::default()
                .numbers("seq", [0])
                .texts("name", [Some(CATALOG)])
                .texts("file", [Some(self.engine.directory().display().to_string())]),
            Pragma::Version => Rows::default()
                .texts("library_version", [Some(concat!("v", env!("CARGO_PKG_VERSION")))])
                .texts("codename", [Some("Terrace")]),
            Pragma::Setting(name) => {
                setting(&name, &self.setting(state, &name).unwrap_or_default())
            }
        };
        Ok(rows.logical()?)
    }

    /// The value of a setting that DataFusion does not know by this name.
    fn setting(&self, state: &SessionState, name: &str) -> Option<String> {
        if is_budget(name) {
            return Some(format_bytes(self.engine.ledger().budget()));
        }
        let options = state.config_options();
        match known_as(name)? {
            DEFAULT_SCHEMA => Some(SearchPath::of(options).text()),
            PARTITIONS => Some(options.execution.target_partitions.to_string()),
            _ => None,
        }
    }

    fn schemas(&self, state: &SessionState) -> Rows {
        let current = SearchPath::of(state.config_options());
        let current = current.first(&self.names.current()).map(str::to_owned);
        let names = self.names.names().schemas();
        Rows::default()
            .texts("database_name", names.iter().map(|_| Some(CATALOG)))
            .texts("schema_name", names.iter().map(Some))
            .flags("current", names.iter().map(|name| current.as_ref() == Some(name)))
    }

    /// The tables and views of the schema that the options name, or of all schemas.
    fn relations(
        &self,
        state: &SessionState,
        options: &ShowStatementOptions,
        is_shown: impl Fn(&Relation) -> bool,
    ) -> Result<Rows, SqlError> {
        let schema = match &options.show_in {
            None => None,
            Some(place) => {
                let name = place.parent_name.as_ref().map(super::own_settings::text);
                let name = name.map_or_else(
                    || {
                        let path = SearchPath::of(state.config_options());
                        path.first(&self.names.current()).unwrap_or_default().to_owned()
                    },
                    |name| name.strip_prefix("main.").unwrap_or(&name).to_owned(),
                );
                if !self.names.names().schemas().contains(&name) {
                    return Err(SqlError::MissingSchema { name });
                }
                Some(name)
            }
        };
        let mut shown = self.names.names().relations();
        shown.retain(|it| is_shown(it) && schema.as_ref().is_none_or(|name| *name == it.schema));
        shown.sort_unstable_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(Rows::default()
            .texts("table_catalog", shown.iter().map(|_| Some(CATALOG)))
            .texts("table_schema", shown.iter().map(|it| Some(&it.schema)))
            .texts("table_name", shown.iter().map(|it| Some(&it.name)))
            .texts("table_type", shown.iter().map(|it| Some(kind(&it.kind)))))
    }

    /// All tables and views but those of the engine's state, with their columns.
    async fn all_tables(&self) -> Result<Rows, SqlError> {
        let names = self.names.names();
        let mut relations = names.relations();
        relations.retain(|relation| relation.schema != SYSTEM_SCHEMA);
        relations.sort_unstable_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        let (mut columns, mut types) = (Vec::new(), Vec::new());
        for Relation { schema, name, .. } in &relations {
            let found = names.columns(schema, name).await?;
            let fields = found.iter().flat_map(|columns| columns.fields().iter());
            columns.push(fields.clone().map(|field| field.name().clone()).collect::<Vec<_>>());
            types.push(fields.map(|field| sql_type::of(field)).collect::<Vec<_>>());
        }
        Ok(Rows::default()
            .texts("database", relations.iter().map(|_| Some(CATALOG)))
            .texts("schema", relations.iter().map(|relation| Some(&relation.schema)))
            .texts("name", relations.iter().map(|relation| Some(&relation.name)))
            .lists("column_names", columns)
            .lists("column_types", types)
            .flags("temporary", relations.iter().map(|it| is_temporary(&it.schema))))
    }
}

/// A setting and its value, as DataFusion shows them.
fn setting(name: &str, value: &str) -> Rows {
    Rows::default().texts("name", [Some(name)]).texts("value", [Some(value)])
}

fn kind(kind: &RelationKind) -> &'static str {
    match kind {
        RelationKind::Table { .. } | RelationKind::External => "BASE TABLE",
        RelationKind::View(_) | RelationKind::System => "VIEW",
    }
}

/// The functions that statements can call, by name.
fn functions(state: &SessionState) -> Rows {
    type Facts = (&'static str, Option<String>, Option<String>);

    let mut all: BTreeMap<(String, &'static str), Facts> = BTreeMap::new();
    let mut add =
        |name: &str, kind, documentation: Option<&datafusion::logical_expr::Documentation>| {
            // Names with a space are no functions of users.
            if name.contains(' ') {
                return;
            }
            let description = documentation.map(|it| it.description.clone());
            let example = documentation.map(|it| it.syntax_example.clone());
            all.insert((name.to_owned(), kind), (kind, example, description));
        };
    for (name, function) in state.scalar_functions() {
        add(name, "scalar", function.documentation());
    }
    for (name, function) in state.aggregate_functions() {
        add(name, "aggregate", function.documentation());
    }
    for (name, function) in state.window_functions() {
        add(name, "window", function.documentation());
    }
    for name in state.table_functions().keys() {
        add(name, "table", None);
    }
    Rows::default()
        .texts("function_name", all.keys().map(|(name, _)| Some(name)))
        .texts("function_type", all.values().map(|(kind, ..)| Some(*kind)))
        .texts("syntax_example", all.values().map(|(_, example, _)| example.clone()))
        .texts("description", all.values().map(|(.., description)| description.clone()))
}

fn has_options(options: &ShowStatementOptions) -> bool {
    options
        != &ShowStatementOptions {
            show_in: None,
            starts_with: None,
            limit: None,
            limit_from: None,
            filter_position: None,
        }
}

/// The options without the schema, since the rows were already selected by it.
fn unplaced(options: &ShowStatementOptions) -> ShowStatementOptions {
    ShowStatementOptions { show_in: None, ..options.clone() }
}

/// The rows whose name matches the filter of a SHOW.
fn filtered(
    plan: LogicalPlan,
    name: &str,
    statement: &SqlStatement,
    options: &ShowStatementOptions,
) -> Result<LogicalPlan, SqlError> {
    let filter = match &options.filter_position {
        Some(
            ShowStatementFilterPosition::Infix(filter)
            | ShowStatementFilterPosition::Suffix(filter),
        ) => Some(filter),
        None => None,
    };
    let unfiltered = ShowStatementOptions { filter_position: None, ..options.clone() };
    if has_options(&unfiltered) {
        return Err(unsupported(statement));
    }
    matching(plan, name, statement, filter)
}

fn matching(
    plan: LogicalPlan,
    name: &str,
    statement: &SqlStatement,
    filter: Option<&ShowStatementFilter>,
) -> Result<LogicalPlan, SqlError> {
    let name: Expr = col(format!("shown.{name}"));
    let condition = match filter {
        None => return Ok(plan),
        Some(ShowStatementFilter::Like(pattern) | ShowStatementFilter::NoKeyword(pattern)) => {
            name.like(lit(pattern.as_str()))
        }
        Some(ShowStatementFilter::ILike(pattern)) => name.ilike(lit(pattern.as_str())),
        Some(ShowStatementFilter::Where(_)) => return Err(unsupported(statement)),
    };
    Ok(LogicalPlanBuilder::from(plan).filter(condition)?.build()?)
}

fn unsupported(statement: &SqlStatement) -> SqlError {
    refused(&statement.to_string(), "say LIKE 'pattern', or query information_schema")
}
