//! ALTER TYPE RENAME VALUE.
//!
//! A column of an enum stores the texts of its labels, so the tables with such columns are
//! rewritten in the same change as the type. PostgreSQL stores the OID of a label in definitions;
//! here they contain its text. The text is replaced in defaults; if other definitions contain it,
//! the statement is refused and lists them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::functions_nested::expr_fn::array_replace_all;
use datafusion::logical_expr::{Operator, ident, lit as literal_of};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, lit};
use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use futures::FutureExt as _;
use terrace_table::catalog::{
    Catalog, Draft, KnownViews, SchemaText, Snapshot, TableDefinition, TextKind, named_type,
};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;
use terrace_table::write::{ColumnSource, CountExec};

use crate::names::SearchPath;
use crate::session::dependencies::{Kind, Object, all_dependents, refuse_users};
use crate::session::dialect::{TerraceDialect, parsed_expr};
use crate::session::enums::enum_type::EnumType;
use crate::session::enums::field::list_enum_of;
use crate::session::enums::names::find;
use crate::session::expressions::Expressions;
use crate::session::state::{Planned, Session};
use crate::session::words::refused;

/// Characters around the elements of the text of an array: `{ok,"sad"}`.
const ARRAY_MARKS: [char; 4] = ['{', '}', ',', '"'];

/// The rename of label `from` of the enum type `schema.name` to `to`.
struct LabelRename {
    schema: String,
    name: String,
    from: String,
    to: String,
    /// The views that planning has checked for the label. The commit fails if the catalog has other
    /// views by then.
    views: Arc<KnownViews>,
    state: SessionState,
}

impl Session {
    /// Plans a RENAME VALUE of a type.
    ///
    /// # Errors
    /// [`SqlError::Refused`] and [`SqlError::Exists`] for labels that are not possible;
    /// [`SqlError::InUse`] if a definition has the text of the label.
    pub(super) fn rename_label(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        mut of: EnumType,
        (from, to): (String, String),
    ) -> Result<Planned, SqlError> {
        of.rename(&from, &to)?;
        let views = Arc::new(KnownViews::of(snapshot));
        let EnumType { schema, name, .. } = of;
        let rename = LabelRename { schema, name, from, to, views, state: state.clone() };
        rename.refuse_uses(state, snapshot)?;
        let (catalog, rename) = (Arc::clone(self.engine.catalog()), Arc::new(rename));
        let what = format!("AlterTypeExec: type={}.{}", rename.schema, rename.name);
        let plan = CountExec::definition(what, move |context| {
            let (catalog, rename) = (Arc::clone(&catalog), Arc::clone(&rename));
            async move { Ok(rename.run(&catalog, &context).await?) }.boxed()
        });
        Ok(Planned { plan, watched: None })
    }
}

impl LabelRename {
    /// True for a column of the type, or of lists of it.
    fn is_of_type(&self, field: &Field) -> bool {
        named_type(field) == Some((self.schema.as_str(), self.name.as_str()))
    }

    /// The tables with a column of the type.
    fn tables(&self, snapshot: &Snapshot) -> Vec<Arc<Table>> {
        let mut found = Vec::new();
        for schema in snapshot.schemas() {
            for name in snapshot.table_names(&schema) {
                let table = snapshot.table(&schema, &name).map(|(table, _)| table);
                let is_user = |table: &Arc<Table>| {
                    table.schema().fields().iter().any(|field| self.is_of_type(field))
                };
                found.extend(table.filter(is_user));
            }
        }
        found
    }

    /// Refuses the change if a definition other than a default of a column of the type contains
    /// the text of the label.
    fn refuse_uses(&self, state: &SessionState, snapshot: &Snapshot) -> Result<(), SqlError> {
        let of_type = Object::new(Kind::Type, &self.schema, &self.name);
        let mut on = vec![of_type.clone()];
        let mut found = BTreeSet::new();
        for table in self.tables(snapshot) {
            on.push(Object::new(Kind::Table, table.schema_name(), table.name()));
            self.definition(&table, &mut found)?;
        }
        for object in all_dependents(state, snapshot, &on)? {
            if let Some(text) = text_of(snapshot, &object)
                && has_literal(&text, &self.from)?
            {
                found.insert(object);
            }
        }
        let path = SearchPath::of(state.config_options());
        let what = format!("rename label '{}' of {}", self.from, of_type.named(&path, snapshot));
        refuse_users(&what, &path, snapshot, found)
    }

    /// The definition of a table after the change. Adds to `found` the parts that contain the text
    /// of the label, except defaults of columns of the type, which get the new text.
    fn definition(
        &self,
        table: &Table,
        found: &mut BTreeSet<Object>,
    ) -> Result<TableDefinition, SqlError> {
        let mut properties = table.properties().clone();
        let mut note = |kind: Kind| {
            found.insert(Object::new(kind, table.schema_name(), table.name()));
        };
        for (name, column) in &mut properties.columns {
            let field = table.schema().field_with_name(name).ok();
            let is_of_type = field.is_some_and(|field| self.is_of_type(field));
            if let Some(text) = &mut column.default {
                match self.default_of(text)?.filter(|_| is_of_type) {
                    Some(renamed) => *text = renamed,
                    None if has_literal(text, &self.from)? => note(Kind::Default(name.clone())),
                    None => {}
                }
            }
            if let Some(text) = &column.generated
                && has_literal(text, &self.from)?
            {
                note(Kind::Column(name.clone()));
            }
        }
        for (name, text) in &properties.checks {
            if has_literal(text, &self.from)? {
                note(Kind::Constraint(name.clone()));
            }
        }
        Ok(TableDefinition {
            schema_name: table.schema_name().to_owned(),
            name: table.name().to_owned(),
            columns: Arc::clone(table.schema()),
            encoding: table.encoding(),
            properties,
            owner: None,
        })
    }

    /// The new text of a default that is the renamed label, possibly in casts; `None` for any other
    /// default.
    fn default_of(&self, text: &str) -> Result<Option<String>, SqlError> {
        let mut expr = parsed_expr(text)?;
        let Some(label) = literal(&mut expr).filter(|label| **label == self.from) else {
            return Ok(None);
        };
        label.clone_from(&self.to);
        Ok(Some(expr.to_string()))
    }

    /// The source of a column of the rewritten table: for a column of the type an expression that
    /// replaces the label, else the column as it is.
    fn source(&self, columns: &SchemaRef, index: usize) -> Result<ColumnSource, SqlError> {
        let field = columns.field(index);
        if !self.is_of_type(field) {
            return Ok(ColumnSource::Kept(index));
        }
        let text = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        let (from, to) = (text(&self.from), text(&self.to));
        if list_enum_of(field).is_some() {
            let lists = ident(field.name());
            let lists = array_replace_all(lists, literal_of(from), literal_of(to));
            let value = Expressions::new(&self.state, columns)?.compiled(lists)?;
            return Ok(ColumnSource::Computed(value));
        }
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let text = |text: ScalarValue| -> Result<_, SqlError> {
            Ok(lit(text.cast_to(field.data_type())?))
        };
        let is_it = BinaryExpr::new(Arc::clone(&column), Operator::Eq, text(from)?);
        let renamed = (Arc::new(is_it) as Arc<dyn PhysicalExpr>, text(to)?);
        let value = CaseExpr::try_new(None, vec![renamed], Some(column))?;
        Ok(ColumnSource::Computed(Arc::new(value)))
    }

    async fn run(&self, catalog: &Arc<Catalog>, context: &TaskContext) -> Result<(), SqlError> {
        let scope = Scope::of(context);
        let rewrites = loop {
            let tables = self.tables(&scope.snapshot(catalog)?);
            match scope.rewrite_all(catalog, &tables).await {
                Err(SqlError::Dropped { .. }) => {}
                locked => break locked?,
            }
        };
        let count = rewrites.tables().len();
        let mut altered = Vec::with_capacity(count);
        for (before, version) in rewrites.tables() {
            let definition = self.definition(before, &mut BTreeSet::new())?;
            let after = catalog.altered(before, definition)?;
            let columns = 0..before.schema().fields().len();
            let sources = columns.map(|index| self.source(before.schema(), index));
            let sources = sources.collect::<Result<Vec<_>, _>>()?;
            let sketches = rewrites.sketches(before)?;
            let memory = context.memory_pool();
            let changes = before.alter(version, &after, &sources, &sketches, memory).await?;
            altered.push((after, changes));
        }
        rewrites.alter(catalog, &altered, |draft| self.put(draft, count), |_| Ok(())).await
    }

    /// Renames the label in the catalog.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if other than `count` tables have columns of the type by now.
    fn put(&self, draft: &mut Draft, count: usize) -> Result<(), SqlError> {
        let name = format!("{}.{}", self.schema, self.name);
        if self.tables(draft.snapshot()).len() != count {
            let what = format!("a column of type {name} was made");
            return Err(SqlError::Conflict { what });
        }
        draft.depend_on_views(&self.views)?;
        let known = find(draft.snapshot(), &self.schema, &self.name)?;
        let mut of = known.ok_or_else(|| SqlError::Missing { name: format!("type {name}") })?;
        of.rename(&self.from, &self.to)?;
        let object = SchemaText { text: of.to_string(), owner: None, comment: None };
        draft.put_text(TextKind::Type, (&self.schema, &self.name), object, true)
    }
}

/// The text of an expression that is a string literal, possibly in casts or parentheses.
fn literal(expr: &mut Expr) -> Option<&mut String> {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => literal(expr),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The text of the definition of an object, or of a part of a table.
fn text_of(snapshot: &Snapshot, object: &Object) -> Option<String> {
    let (schema, name) = object.full_name();
    let table = || snapshot.table(schema, name).map(|(table, _)| table);
    let column = |name: &String| table()?.properties().columns.get(name).cloned();
    match object.kind() {
        Kind::View => snapshot.view(schema, name).map(|text| text.to_string()),
        Kind::Routine => {
            snapshot.text(TextKind::Function, schema, name).map(|object| object.text.clone())
        }
        Kind::Default(name) => column(name).and_then(|column| column.default),
        Kind::Column(name) => column(name).and_then(|column| column.generated),
        Kind::Constraint(name) => table().and_then(|it| it.properties().checks.get(name).cloned()),
        Kind::Table | Kind::Sequence | Kind::Type => None,
    }
}

/// True if the SQL `text` contains the string literal `literal`, by itself or as an element of an
/// array literal.
fn has_literal(text: &str, literal: &str) -> Result<bool, SqlError> {
    let tokens = Tokenizer::new(&TerraceDialect, text).tokenize();
    let tokens = tokens.map_err(|error| SqlError::from(refused(error.into())))?;
    let is_it = |text: &str| {
        let is_array = text.trim_start().starts_with('{');
        text == literal || is_array && text.split(ARRAY_MARKS).any(|item| item.trim() == literal)
    };
    Ok(tokens.iter().any(|token| match token {
        Token::SingleQuotedString(text)
        | Token::EscapedStringLiteral(text)
        | Token::UnicodeStringLiteral(text) => is_it(text),
        Token::DollarQuotedString(text) => is_it(&text.value),
        _ => false,
    }))
}
