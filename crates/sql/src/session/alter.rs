//! ALTER TABLE: the definition of a table after the actions of a statement.
//!
//! ```text
//! ALTER TABLE t ADD COLUMN c INT DEFAULT 7 NOT NULL, DROP COLUMN d;
//! ALTER TABLE t RENAME TO u;  ALTER TABLE t RENAME COLUMN a TO b;
//! ALTER TABLE t ALTER COLUMN a TYPE BIGINT USING a * 2;
//! ALTER TABLE t ALTER COLUMN a SET NOT NULL, ALTER COLUMN b SET DEFAULT now();
//! ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0), DROP CONSTRAINT old;
//! ```
//!
//! The actions apply in the order in which they are written. The values of new columns and of
//! columns with a new type are computed from the columns of the table before the statement.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable as _, ident};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, ColumnDef, ColumnOption, DropBehavior,
    Ident, RenameTableNameKind, Statement as SqlStatement, TableConstraint,
};
use terrace_functions::columns::TextType;
use terrace_table::catalog::{Properties, TableDefinition, named_type};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::write::{Check, ColumnSource};

use super::checks;
use super::column_options::{Written, WrittenCheck, normalized, text_of};
use super::dependencies::{Kind, Object};
use super::enums::written;
use super::expressions::Expressions;
use super::notice::Notice;
use super::object_name::refuse_hiding;
use super::properties::{add_check, columns_of, default_of, generation_of, null_of, renamed};
use super::refusal::refused;
use super::sql_column::planned_column;
use super::sql_type;

/// Returns the ALTER TABLE of a statement; `None` for any other.
pub(super) fn of(statement: &Statement) -> Option<&AlterTable> {
    let Statement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::AlterTable(alter) => Some(alter),
        _ => None,
    }
}

/// The definition of a table after an ALTER TABLE, and the sources of its columns.
pub(super) struct Alteration<'a> {
    state: &'a SessionState,
    before: &'a Table,
    name: String,
    fields: Vec<FieldRef>,
    /// The source of the values of each of `fields`, in the same order.
    sources: Vec<ColumnSource>,
    properties: Properties,
    /// Names of the new or changed constraints, which existing rows have to be checked against.
    unchecked: BTreeSet<String>,
    /// Notices of the actions that have nothing to do.
    skipped: Vec<Notice>,
}

impl<'a> Alteration<'a> {
    /// Applies the actions of a statement to the definition of a table.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for an action that is not supported; [`SqlError::MissingColumn`],
    /// [`SqlError::ColumnExists`], [`SqlError::MissingConstraint`],
    /// [`SqlError::ConstraintExists`]; errors of planning.
    pub(super) async fn of(
        state: &'a SessionState,
        before: &'a Table,
        operations: &[AlterTableOperation],
    ) -> Result<Self, SqlError> {
        let fields: Vec<FieldRef> = before.schema().fields().iter().cloned().collect();
        let sources = (0..fields.len()).map(ColumnSource::Kept).collect();
        let (name, properties) = (before.name().to_owned(), before.properties().clone());
        let (unchecked, skipped) = (BTreeSet::new(), vec![]);
        let mut altered =
            Self { state, before, name, fields, sources, properties, unchecked, skipped };
        for operation in operations {
            altered.apply(operation).await?;
        }
        if altered.fields.is_empty() {
            let what = format!("table {} without columns", before.full_name());
            return Err(refused(&what, "keep one, or drop the table"));
        }
        Ok(altered)
    }

    /// The definition of the altered table.
    pub(super) fn definition(&self) -> TableDefinition {
        TableDefinition {
            schema_name: self.before.schema_name().to_owned(),
            name: self.name.clone(),
            columns: self.schema(),
            encoding: self.before.encoding(),
            properties: self.properties.clone(),
            owner: None,
        }
    }

    /// The notices of the actions that have nothing to do, in order.
    pub(super) fn skipped(&self) -> &[Notice] {
        &self.skipped
    }

    /// Removes the sequences among dropped objects from the columns that own them.
    pub(super) fn release(&mut self, dropped: &[Object]) {
        let schema = self.before.schema_name();
        for own in self.properties.columns.values_mut() {
            let name = own.sequence.as_deref();
            let sequence = name.map(|name| Object::new(Kind::Sequence, schema, name));
            if sequence.is_some_and(|sequence| dropped.contains(&sequence)) {
                own.sequence = None;
            }
        }
    }

    /// The sources of the columns of the altered table.
    pub(super) fn sources(&self) -> &[ColumnSource] {
        &self.sources
    }

    /// The new or changed constraints, which existing rows have to be checked against.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) fn unchecked(&self) -> Result<Vec<Check>, SqlError> {
        let schema = self.schema();
        let checks = self.properties.checks.iter();
        let checks = checks.filter(|(name, _)| self.unchecked.contains(*name));
        checks.map(|(name, text)| checks::compile(self.state, &schema, name, text)).collect()
    }

    fn schema(&self) -> SchemaRef {
        let metadata = self.before.schema().metadata().clone();
        Arc::new(Schema::new_with_metadata(self.fields.clone(), metadata))
    }

    async fn apply(&mut self, operation: &AlterTableOperation) -> Result<(), SqlError> {
        use AlterTableOperation as Op;
        match operation {
            Op::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                self.add_column(column_def, *if_not_exists).await
            }
            Op::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascades = matches!(drop_behavior, Some(DropBehavior::Cascade));
                let mut names = column_names.iter();
                names.try_for_each(|name| self.drop_column(name, *if_exists, cascades))
            }
            Op::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(old_column_name, new_column_name)
            }
            Op::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => match name.0.as_slice() {
                [part] if part.as_ident().is_some() => {
                    self.name = part.as_ident().cloned().map(normalized).unwrap_or_default();
                    refuse_hiding(&self.name)
                }
                _ => Err(refused(
                    &format!("renaming {} to {name}", self.before.full_name()),
                    "say a name without a schema: the table stays in its schema",
                )),
            },
            Op::AlterColumn { column_name, op } => self.alter_column(column_name, op).await,
            Op::AddConstraint { constraint: TableConstraint::Check(check), not_valid: false } => {
                self.add_check(&WrittenCheck {
                    name: check.name.clone().map(normalized),
                    text: text_of(&check.expr),
                })
            }
            Op::DropConstraint { if_exists, name, .. } => self.drop_constraint(name, *if_exists),
            Op::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(old_name, new_name)
            }
            Op::AddConstraint { not_valid: true, .. } => Err(refused(
                &format!("ALTER TABLE ... {operation}"),
                "leave NOT VALID out: all rows are checked",
            )),
            Op::AddConstraint { .. } => Err(refused(
                &format!("ALTER TABLE ... {operation}"),
                "only CHECK is possible: no index enforces the others",
            )),
            other => Err(refused(
                &format!("ALTER TABLE ... {other}"),
                "columns, names, types, defaults, NOT NULL and CHECK can be altered",
            )),
        }
    }

    /// The index of a column in `fields`.
    fn find(&self, name: &Ident) -> Result<usize, SqlError> {
        let column = normalized(name.clone());
        let found = self.fields.iter().position(|field| *field.name() == column);
        found.ok_or_else(|| SqlError::MissingColumn { table: self.name.clone(), column })
    }

    fn refuse_existing(&self, column: &str) -> Result<(), SqlError> {
        match self.fields.iter().any(|field| field.name() == column) {
            true => {
                Err(SqlError::ColumnExists { table: self.name.clone(), column: column.to_owned() })
            }
            false => Ok(()),
        }
    }

    async fn add_column(&mut self, column: &ColumnDef, keep: bool) -> Result<(), SqlError> {
        let name = normalized(column.name.clone());
        match self.refuse_existing(&name) {
            Err(_) if keep => {
                let what = format_args!("column \"{name}\" of relation \"{}\"", self.name);
                self.skipped.push(Notice::exists("42701", what));
                return Ok(());
            }
            refused => refused?,
        }
        let (mut column, mut written) = (column.clone(), Written::default());
        written.take(&mut column)?;
        let mut is_nullable = true;
        for option in &column.options {
            match option.option {
                ColumnOption::Null => {}
                ColumnOption::NotNull => is_nullable = false,
                _ => {
                    let what = format!("ADD COLUMN {name} with {}", option.option);
                    return Err(refused(&what, "DEFAULT, NOT NULL and CHECK are possible"));
                }
            }
        }
        if !written.sequences.is_empty() {
            let what = format!("ADD COLUMN {name} with a sequence of its own");
            return Err(refused(&what, "say CREATE SEQUENCE s, and DEFAULT nextval('s')"));
        }
        let field = planned_column(self.state, &column).await?;
        let field = field.with_nullable(is_nullable);
        let value = match written.defaults.first() {
            None if !written.generated.is_empty() => self.generation(&field, &written)?,
            None => null_of(field.data_type())?,
            Some((_, text)) => {
                let value = default_of(self.state, &field, text)?;
                self.properties.change(&name, |column| column.default = Some(text.clone()));
                value
            }
        };
        let value = written::value(self.state, value, &field)?;
        let value = Expressions::new(self.state, self.before.schema())?.compiled(value)?;
        self.fields.push(Arc::new(field));
        self.sources.push(ColumnSource::Computed(value));
        written.checks.iter().try_for_each(|check| self.add_check(check))
    }

    /// The expression of a new generated column, over the columns before the statement.
    fn generation(&mut self, field: &Field, written: &Written) -> Result<Expr, SqlError> {
        let Some((column, text)) = written.generated.first() else {
            return null_of(field.data_type());
        };
        // An earlier action of the statement may have dropped a column.
        let is_there = |name: &String| self.fields.iter().any(|field| field.name() == name);
        if let Some(column) = columns_of(text)?.into_iter().find(|name| !is_there(name)) {
            return Err(SqlError::MissingColumn { table: self.name.clone(), column });
        }
        let schema = DFSchema::try_from(Arc::clone(self.before.schema()))?;
        let properties = self.before.properties();
        let is_generated = |column: &str| properties.generated(column).is_some();
        let field = Arc::new(field.clone());
        let value = generation_of(self.state, &schema, &field, text, is_generated)?;
        self.properties.change(column, |column| column.generated = Some(text.clone()));
        Ok(value)
    }

    /// The generated columns whose expressions use a column.
    fn generated_from(&self, column: &str) -> Result<Vec<String>, SqlError> {
        let mut users = Vec::new();
        for (name, properties) in &self.properties.columns {
            if let Some(text) = &properties.generated
                && columns_of(text)?.contains(column)
            {
                users.push(name.clone());
            }
        }
        Ok(users)
    }

    /// Refuses a change of a column that a generated column is computed from. `what` begins the
    /// error: "a new type for".
    fn refuse_source(&self, column: &str, what: &str) -> Result<(), SqlError> {
        match self.generated_from(column)?.first() {
            None => Ok(()),
            Some(user) => Err(refused(
                &format!("{what} column {column}, which generated column {user} is computed from"),
                &format!("drop column {user} first"),
            )),
        }
    }

    /// The error of dropping a column that generated columns are computed from.
    fn depended_on(&self, column: &str, users: &[String]) -> SqlError {
        let table = &self.name;
        let dropped = format!("column {column} of table {table}");
        let detail = |user: &String| format!("column {user} of table {table} depends on {dropped}");
        SqlError::Dependents {
            what: format!("drop {dropped} because other objects depend on it"),
            details: users.iter().map(detail).collect(),
        }
    }

    /// Refuses a change of a generated or identity column.
    fn refuse_generated(&self, column: &str) -> Result<(), SqlError> {
        let kind = match self.properties.of(column) {
            Some(properties) if properties.generated.is_some() => "a generated column",
            Some(properties) if properties.identity.is_some() => "an identity column",
            _ => return Ok(()),
        };
        let table = &self.name;
        let what = format!("column \"{column}\" of relation \"{table}\" is {kind}");
        Err(SqlError::GeneratedAlways { what })
    }

    /// Drops a column, and the CHECK constraints that use it; with CASCADE, also the generated
    /// columns that are computed from it.
    fn drop_column(
        &mut self,
        name: &Ident,
        if_exists: bool,
        cascades: bool,
    ) -> Result<(), SqlError> {
        let mut index = match self.find(name) {
            Err(_) if if_exists => {
                let name = normalized(name.clone());
                let what = format_args!("column \"{name}\" of relation \"{}\"", self.name);
                self.skipped.push(Notice::missing(what));
                return Ok(());
            }
            found => found?,
        };
        let users = self.generated_from(self.fields[index].name())?;
        if !users.is_empty() && !cascades {
            return Err(self.depended_on(self.fields[index].name(), &users));
        }
        for user in users {
            let user = Ident::with_quote('"', user);
            // A generated column that is computed from another one may be dropped already.
            if self.find(&user).is_ok() {
                self.drop_column(&user, false, true)?;
            }
            index = self.find(name)?;
        }
        let field = self.fields.remove(index);
        self.sources.remove(index);
        self.properties.columns.remove(field.name());
        for name in self.checks_of(field.name())? {
            self.properties.checks.remove(&name);
            self.unchecked.remove(&name);
        }
        Ok(())
    }

    /// The names of the CHECK constraints that use a column.
    fn checks_of(&self, column: &str) -> Result<Vec<String>, SqlError> {
        let mut names = Vec::new();
        for (name, text) in &self.properties.checks {
            if columns_of(text)?.contains(column) {
                names.push(name.clone());
            }
        }
        Ok(names)
    }

    fn rename_column(&mut self, from: &Ident, to: &Ident) -> Result<(), SqlError> {
        let (index, to) = (self.find(from)?, normalized(to.clone()));
        self.refuse_existing(&to)?;
        let from = self.fields[index].name().clone();
        let field = self.fields[index].as_ref().clone().with_name(to.clone());
        self.fields[index] = Arc::new(field);
        if let Some(properties) = self.properties.columns.remove(&from) {
            self.properties.columns.insert(to.clone(), properties);
        }
        for user in self.generated_from(&from)? {
            let text = self.properties.generated(&user).unwrap_or_default();
            let text = renamed(text, &from, &to)?;
            self.properties.change(&user, |column| column.generated = Some(text));
        }
        for name in self.checks_of(&from)? {
            if let Some(text) = self.properties.checks.get_mut(&name) {
                *text = renamed(text, &from, &to)?;
            }
        }
        Ok(())
    }

    async fn alter_column(
        &mut self,
        name: &Ident,
        op: &AlterColumnOperation,
    ) -> Result<(), SqlError> {
        let index = self.find(name)?;
        let column = self.fields[index].name().clone();
        let nullable = |is| Arc::new(self.fields[index].as_ref().clone().with_nullable(is));
        match op {
            AlterColumnOperation::SetNotNull => self.fields[index] = nullable(false),
            AlterColumnOperation::DropNotNull => {
                if self.properties.identity(&column).is_some() {
                    self.refuse_generated(&column)?;
                }
                self.fields[index] = nullable(true);
            }
            AlterColumnOperation::SetDefault { value } => {
                self.refuse_generated(&column)?;
                let text = text_of(value);
                default_of(self.state, &self.fields[index], &text)?;
                self.properties.change(&column, |column| column.default = Some(text));
            }
            AlterColumnOperation::DropDefault => {
                self.refuse_generated(&column)?;
                self.properties.change(&column, |column| column.default = None);
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                self.refuse_source(&column, "a new type for")?;
                if self.properties.generated(&column).is_some() {
                    self.refuse_generated(&column)?;
                }
                let (name, data_type) = (name.clone(), data_type.clone());
                let written = ColumnDef { name, data_type, options: vec![] };
                let field = planned_column(self.state, &written).await?;
                let using = using.as_ref().map(text_of);
                self.set_type(index, &field, using.as_deref())?;
            }
            AlterColumnOperation::AddGenerated { .. } => {
                let what = format!("ALTER COLUMN {column} {op}");
                return Err(refused(&what, "say it in a statement of its own"));
            }
        }
        Ok(())
    }

    /// Gives a column another type. Its values are those of the expression `using`, or else its own
    /// values, cast.
    fn set_type(&mut self, index: usize, new: &Field, using: Option<&str>) -> Result<(), SqlError> {
        let (field, data_type) = (Arc::clone(&self.fields[index]), new.data_type());
        let Some(origin) = self.sources[index].kept() else {
            let what = format!("a new type for column {}, which has just been added", field.name());
            return Err(refused(&what, "say it in another statement"));
        };
        let is_same = field.data_type() == data_type
            && TextType::of(&field) == TextType::of(new)
            && named_type(&field) == named_type(new);
        if is_same && using.is_none() {
            return Ok(());
        }
        let expressions = Expressions::new(self.state, self.before.schema())?;
        let value = match using {
            Some(text) => expressions.planned(text)?,
            None => {
                refuse_cast(&field, new)?;
                ident(self.before.schema().field(origin).name())
            }
        };
        let value = cast_to(value, data_type, &expressions)?;
        let value = written::value(self.state, value, new)?;
        self.sources[index] = ColumnSource::Computed(expressions.compiled(value)?);
        let altered = field.as_ref().clone().with_data_type(data_type.clone());
        self.fields[index] = Arc::new(altered.with_metadata(new.metadata().clone()));
        if let Some(text) = self.properties.default_of(field.name()) {
            default_of(self.state, &self.fields[index], text)?;
        }
        self.unchecked.extend(self.checks_of(field.name())?);
        Ok(())
    }

    fn add_check(&mut self, check: &WrittenCheck) -> Result<(), SqlError> {
        let schema = self.schema();
        let checks = &mut self.properties.checks;
        let name = add_check(self.state, &self.name, &schema, checks, check)?;
        self.unchecked.insert(name);
        Ok(())
    }

    fn drop_constraint(&mut self, name: &Ident, if_exists: bool) -> Result<(), SqlError> {
        let constraint = normalized(name.clone());
        self.unchecked.remove(&constraint);
        let dropped = self.properties.checks.remove(&constraint).is_some();
        if !dropped && !if_exists {
            return Err(SqlError::MissingConstraint { table: self.name.clone(), constraint });
        }
        if !dropped {
            let what = format_args!("constraint \"{constraint}\" of relation \"{}\"", self.name);
            self.skipped.push(Notice::missing(what));
        }
        Ok(())
    }

    fn rename_constraint(&mut self, from: &Ident, to: &Ident) -> Result<(), SqlError> {
        let (constraint, to) = (normalized(from.clone()), normalized(to.clone()));
        let table = self.name.clone();
        if self.properties.checks.contains_key(&to) {
            return Err(SqlError::ConstraintExists { table, constraint: to });
        }
        let Some(text) = self.properties.checks.remove(&constraint) else {
            return Err(SqlError::MissingConstraint { table, constraint });
        };
        if self.unchecked.remove(&constraint) {
            self.unchecked.insert(to.clone());
        }
        self.properties.checks.insert(to, text);
        Ok(())
    }
}

/// Casts a planned expression to a type.
fn cast_to(
    value: Expr,
    data_type: &DataType,
    expressions: &Expressions<'_>,
) -> Result<Expr, SqlError> {
    Ok(value.cast_to(data_type, expressions.schema())?)
}

/// Refuses a change of type that requires an explicit cast in USING. As in PostgreSQL, casts
/// between numeric types, between dates and timestamps, and to text need none.
fn refuse_cast(field: &Field, new: &Field) -> Result<(), SqlError> {
    let is_text = |data_type: &DataType| {
        matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    let (from, to) = (field.data_type(), new.data_type());
    let is_plain = match TextType::of(new) {
        Some(TextType::Uuid) => TextType::of(field) == Some(TextType::Uuid),
        Some(TextType::Json | TextType::Jsonb) => {
            matches!(TextType::of(field), Some(TextType::Json | TextType::Jsonb))
        }
        _ => true,
    };
    let is_day = |it: &DataType| matches!(it, DataType::Date32 | DataType::Timestamp(..));
    let is_implicit = is_text(to)
        || (from.is_numeric() && to.is_numeric())
        || (is_day(from) && is_day(to))
        || std::mem::discriminant(from) == std::mem::discriminant(to);
    if is_plain && is_implicit && can_cast_types(from, to) {
        return Ok(());
    }
    let name = field.name();
    Err(refused(
        &format!("casting column {name} automatically to {}", sql_type::of(new)),
        &format!("say USING CAST({name} AS {})", sql_type::of(new)),
    ))
}
