//! Settings of a session by the names that PostgreSQL and DuckDB have for them (`setting_names`):
//! SET, USE, RESET, and SET LOCAL until the end of a transaction.

use datafusion::common::config::ConfigField as _;
use datafusion::config::ConfigOptions;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Set, Statement as SqlStatement, Use, Value,
};
use terrace_exec::{PagedOptions, options_of};
use terrace_table::error::SqlError;

use super::own_settings::{OWN, text};
use super::refusal::refused;
use super::setting_names::{DEFAULT_SCHEMA, LocalSetting, known_as, word};
use super::state::Session;
use crate::names::{CATALOG, SearchPath};

/// The element of a search path that stands for the schema of the role's name.
const USER_SCHEMA: &str = "$user";

impl Session {
    /// Replaces USE, and SET and RESET of a setting by another name, by the SET of DataFusion's
    /// name; leaves any other statement unchanged.
    ///
    /// # Errors
    /// For a schema that does not exist, in USE and `SET schema`.
    pub(super) fn with_known_names(&self, statement: Statement) -> Result<Statement, SqlError> {
        let parsed = match &statement {
            Statement::Reset(ResetStatement::Variable(name)) => {
                let key = known_as(&text(name));
                return Ok(key.map_or(statement, |key| self.initial(key)));
            }
            Statement::Statement(parsed) => parsed.as_ref(),
            _ => return Ok(statement),
        };
        match parsed {
            SqlStatement::Use(target) => self.used(target),
            SqlStatement::Set(Set::SingleAssignment { variable, values, .. }) => {
                let name = text(variable);
                let key = known_as(&name).unwrap_or(&name);
                let is_default = |value: &Expr| {
                    matches!(value, Expr::Identifier(word)
                        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
                };
                match values.as_slice() {
                    [value] if is_default(value) => Ok(self.initial(key)),
                    [value] if key == name => Ok(set(key, value.clone())),
                    values if key == DEFAULT_SCHEMA => {
                        self.path(name.eq_ignore_ascii_case("schema"), values)
                    }
                    [value] => Ok(set(key, value.clone())),
                    _ => Ok(statement),
                }
            }
            _ => Ok(statement),
        }
    }

    /// Remembers the value of the setting that a SET LOCAL changes, to restore it when the
    /// transaction ends. A SET without LOCAL lasts.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for SET LOCAL outside of a transaction, or of a setting of the engine.
    pub(super) fn note_local(&self, statement: &Statement) -> Result<(), SqlError> {
        let Statement::Statement(parsed) = statement else { return Ok(()) };
        let SqlStatement::Set(Set::SingleAssignment { scope, variable, .. }) = parsed.as_ref()
        else {
            return Ok(());
        };
        let name = text(variable).to_ascii_lowercase();
        let key = known_as(&name).map_or(name, str::to_owned);
        let mut locals = terrace_sys::sync::lock(&self.locals);
        if *scope != Some(ContextModifier::Local) {
            locals.retain(|local| local.key != key);
            return Ok(());
        }
        if self.transaction().is_none() {
            let instead = "say BEGIN first, or SET, which lasts for the session";
            return Err(refused(&format!("{statement} outside of a transaction"), instead));
        }
        if key == super::own_settings::MARKET {
            let instead = "say SET: the market belongs to the engine";
            return Err(refused(&statement.to_string(), instead));
        }
        if locals.iter().all(|local| local.key != key) {
            let before = value(self.context.state_ref().read().config_options(), &key);
            locals.push(LocalSetting { key, before });
        }
        Ok(())
    }

    /// Restores the settings that SET LOCAL has changed in a transaction that has ended.
    pub(super) fn end_locals(&self) {
        let locals = std::mem::take(&mut *terrace_sys::sync::lock(&self.locals));
        if locals.is_empty() {
            return;
        }
        let state = self.context.state_ref();
        let mut state = state.write();
        let options = state.config_mut().options_mut();
        for LocalSetting { key, before } in locals {
            let restored = match &before {
                Some(before) => options.set(&key, before),
                None => options.reset(&key),
            };
            if let Err(error) = restored {
                tracing::warn!(%error, "the setting {key} stays as SET LOCAL has set it");
            }
        }
    }

    /// The SET that gives a setting the initial value of every session of the engine.
    fn initial(&self, key: &str) -> Statement {
        let begun = self.begun();
        let initial = value(begun.options(), key).unwrap_or_default();
        set(key, literal(initial))
    }

    /// The schema in which objects are created whose name has no schema; `None` if no schema of the
    /// search path exists.
    #[must_use]
    pub fn current_schema(&self) -> Option<String> {
        let path = SearchPath::of(self.context.state_ref().read().config_options());
        path.first(&self.names.current()).map(str::to_owned)
    }

    fn used(&self, target: &Use) -> Result<Statement, SqlError> {
        let Use::Object(name) = target else {
            return Err(refused(&target.to_string(), "say USE and the name of a schema"));
        };
        let schema = folded(name);
        if schema == [CATALOG] && !self.names.names().schemas().iter().any(|it| it == CATALOG) {
            return Ok(self.initial(DEFAULT_SCHEMA));
        }
        let schema = match schema.as_slice() {
            [catalog, schema] if catalog == CATALOG => schema,
            [schema] => schema,
            _ => return Err(refused(&format!("USE {name}"), "name a schema of the database")),
        };
        self.require_schema(schema)?;
        Ok(set(DEFAULT_SCHEMA, literal(SearchPath::new(vec![schema.clone()]).text())))
    }

    /// The SET of the search path to `values`: names, or texts of names separated by commas. If
    /// `is_checked`, the schemas must exist.
    fn path(&self, is_checked: bool, values: &[Expr]) -> Result<Statement, SqlError> {
        let mut schemas = Vec::new();
        for value in values {
            match value {
                Expr::Identifier(name) => {
                    schemas.push(IdentNormalizer::default().normalize(name.clone()));
                }
                value => schemas.extend_from_slice(SearchPath::parse(&word(value)).schemas()),
            }
        }
        if is_checked {
            schemas.iter().try_for_each(|schema| self.require_schema(schema))?;
        }
        let role = self.role();
        let schemas = schemas.into_iter().filter_map(|schema| match schema == USER_SCHEMA {
            true => role.as_deref().map(str::to_owned),
            false => Some(schema),
        });
        Ok(set(DEFAULT_SCHEMA, literal(SearchPath::new(schemas.collect()).text())))
    }

    fn require_schema(&self, schema: &str) -> Result<(), SqlError> {
        match self.names.names().schemas().iter().any(|known| known == schema) {
            true => Ok(()),
            false => Err(SqlError::MissingSchema { name: schema.to_owned() }),
        }
    }
}

/// The value of a setting.
fn value(options: &ConfigOptions, key: &str) -> Option<String> {
    if let Some(own) = key.strip_prefix(OWN) {
        let all = options_of(options.extensions.get::<PagedOptions>()?);
        return all.into_iter().find(|(known, _)| known == own).map(|(_, value)| value);
    }
    options.entries().into_iter().find(|entry| entry.key == key)?.value
}

/// A SET of DataFusion.
fn set(key: &str, value: Expr) -> Statement {
    let parts = key.split('.').map(Ident::new).collect::<Vec<_>>();
    let set = Set::SingleAssignment {
        scope: None,
        hivevar: false,
        variable: ObjectName::from(parts),
        values: vec![value],
    };
    Statement::Statement(Box::new(SqlStatement::Set(set)))
}

fn literal(text: String) -> Expr {
    Expr::value(Value::SingleQuotedString(text))
}

/// The parts of a name, in lower case unless they are quoted.
fn folded(name: &ObjectName) -> Vec<String> {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    parts.map(|part| IdentNormalizer::default().normalize(part.clone())).collect()
}
