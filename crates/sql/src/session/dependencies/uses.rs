//! Search for the uses of objects in the texts of definitions.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, ObjectName, Statement as SqlStatement, TypedString,
    VisitorMut,
};
use terrace_table::catalog::{Snapshot, TextKind, named_type};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::object::{Kind, Object};
use crate::names::{CATALOG, SearchPath};
use crate::session::dialect::{parsed_expr, parsed_query};
use crate::session::routines::calls::called;
use crate::session::routines::lookup::{Lookup, stored};
use crate::session::routines::routine::{Form, Returns};
use crate::session::routines::syntax::parts;
use crate::session::sequence_calls;
use crate::session::walk::Walk;
use crate::view;

/// Finds the objects of the set `on` in the texts of definitions.
pub(super) struct Uses<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    on: &'a BTreeSet<Object>,
    /// Names of the objects in lower case: a text without any of them uses none.
    names: Vec<String>,
}

impl<'a> Uses<'a> {
    pub(super) fn new(
        state: &'a SessionState,
        snapshot: &'a Snapshot,
        on: &'a BTreeSet<Object>,
    ) -> Self {
        let names = on.iter().map(|object| object.bare_name().to_lowercase()).collect();
        Self { state, snapshot, on, names }
    }

    /// True if a part of a table may use one of the objects.
    pub(super) fn may_be_of_tables(&self) -> bool {
        self.on.iter().any(|it| matches!(it.kind, Kind::Sequence | Kind::Type))
    }

    /// The first of the objects that is found in the stored text of a view; `None` if it uses none.
    pub(super) fn of_view(&self, text: &str) -> Result<Option<Object>, SqlError> {
        if !self.may_be_in(text) {
            return Ok(None);
        }
        let (path, statement) = view::written_query(text)?;
        self.in_statement(&SearchPath::parse(path), statement)
    }

    /// The first of the objects that a function or macro uses, as the type of a parameter or
    /// result, or in a body that is an expression; `None` if it uses none.
    pub(super) fn of_routine(&self, text: &str) -> Result<Option<Object>, SqlError> {
        if !self.may_be_in(text) {
            return Ok(None);
        }
        let routine = stored(text)?;
        let parameters = routine.parameters.iter().filter_map(|it| it.data_type.as_deref());
        let mut types: Vec<&str> = parameters.collect();
        let mut is_expression = routine.form == Form::Macro;
        if let Form::Function(function) = &routine.form {
            is_expression = function.is_expression;
            match &function.returns {
                Returns::Value(of) | Returns::Rows(of) => types.push(of),
                Returns::Table(columns) => types.extend(columns.iter().map(|(_, of)| of.as_str())),
            }
        }
        let mut texts: Vec<String> =
            types.iter().map(|of| format!("SELECT CAST(NULL AS {of})")).collect();
        if is_expression {
            texts.push(format!("SELECT {}", routine.body));
        }
        let path = SearchPath::of(self.state.config_options());
        for text in texts {
            let query = SqlStatement::Query(Box::new(parsed_query(&text)?));
            let statement = Statement::Statement(Box::new(query));
            if let Some(used) = self.in_statement(&path, statement)? {
                return Ok(Some(used));
            }
        }
        Ok(None)
    }

    /// The parts of a table that use one of the objects, each with the first that it uses.
    pub(super) fn of_table(&self, table: &Table) -> Result<Vec<(Kind, Object)>, SqlError> {
        let mut found = Vec::new();
        for field in table.schema().fields() {
            let Some((schema, name)) = named_type(field) else { continue };
            let used = Object::new(Kind::Type, schema, name);
            if self.on.contains(&used) {
                found.push((Kind::Column(field.name().clone()), used));
            }
        }
        let properties = table.properties();
        let mut texts = Vec::new();
        for (column, of) in &properties.columns {
            texts.extend(of.default.as_ref().map(|it| (Kind::Default(column.clone()), it)));
            texts.extend(of.generated.as_ref().map(|it| (Kind::Column(column.clone()), it)));
        }
        let checks = properties.checks.iter();
        texts.extend(checks.map(|(name, text)| (Kind::Constraint(name.clone()), text)));
        for (kind, text) in texts {
            if self.may_be_in(text)
                && let Some(used) = self.in_expression(parsed_expr(text)?)
            {
                found.push((kind, used));
            }
        }
        Ok(found)
    }

    fn may_be_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        // A name with a quote or a control character is written in another way than it is.
        let is_plain = |name: &str| !name.contains(['"', '\'', '\\']) && !name.contains('\n');
        self.names.iter().any(|name| !is_plain(name) || text.contains(name.as_str()))
    }

    fn in_expression(&self, mut expr: Expr) -> Option<Object> {
        self.in_node(&SearchPath::of(self.state.config_options()), &mut expr)
    }

    fn in_statement(
        &self,
        path: &SearchPath,
        mut statement: Statement,
    ) -> Result<Option<Object>, SqlError> {
        let mut references = self.state.resolve_table_references(&statement)?.into_iter();
        let relation = references.find_map(|reference| self.relation(path, reference));
        Ok(relation.or_else(|| self.in_node(path, &mut statement)))
    }

    /// The first function, type or sequence of the set that an expression or a statement uses.
    fn in_node(&self, path: &SearchPath, node: &mut dyn Walk) -> Option<Object> {
        let lookup = Lookup::new(self.state, self.snapshot, &[]);
        let routines = lookup.map(|it| called(&it.within(path.clone()), node)).unwrap_or_default();
        let routine = routines.into_iter().find_map(|it| {
            self.known(Object::new(Kind::Routine, it.schema.as_deref()?, &it.routine.key()))
        });
        routine.or_else(|| self.data_type(path, node)).or_else(|| self.sequence(path, node))
    }

    /// The first type of the set that a cast names.
    fn data_type(&self, path: &SearchPath, node: &mut dyn Walk) -> Option<Object> {
        let mut types = Types { uses: self, path, found: None };
        let _ = node.walk(&mut types);
        types.found
    }

    fn relation(&self, path: &SearchPath, reference: TableReference) -> Option<Object> {
        let used = path.resolve(CATALOG, self.snapshot, reference);
        let found = Object::relation(self.snapshot, &used.schema, &used.table)?;
        self.known(found).filter(|_| used.catalog.as_ref() == CATALOG)
    }

    fn known(&self, object: Object) -> Option<Object> {
        self.on.contains(&object).then_some(object)
    }

    /// The sequence of a call of `nextval` and the like.
    fn sequence(&self, path: &SearchPath, node: &mut dyn Walk) -> Option<Object> {
        let mut names = sequence_calls::named(node).into_iter();
        names.find_map(|name| self.relation(path, TableReference::parse_str(&name)))
    }
}

/// Visitor that finds a type of the set in a syntax tree.
struct Types<'a> {
    uses: &'a Uses<'a>,
    path: &'a SearchPath,
    found: Option<Object>,
}

impl Types<'_> {
    fn note(&mut self, of: &DataType) -> ControlFlow<()> {
        match of {
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                self.found = self.named(name).and_then(|object| self.uses.known(object));
                match self.found {
                    Some(_) => ControlFlow::Break(()),
                    None => ControlFlow::Continue(()),
                }
            }
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, _),
            ) => self.note(item),
            _ => ControlFlow::Continue(()),
        }
    }

    /// The type of a name, or the relation of the name, whose row type it is.
    fn named(&self, name: &ObjectName) -> Option<Object> {
        let (schema, name) = parts(name)?;
        let snapshot = self.uses.snapshot;
        let schemas: Vec<&str> = match &schema {
            Some(schema) => vec![schema],
            None => self.path.existing(snapshot).collect(),
        };
        schemas.into_iter().find_map(|schema| {
            let of_text = snapshot.text(TextKind::Type, schema, &name);
            let of_text = of_text.map(|_| Object::new(Kind::Type, schema, &name));
            of_text.or_else(|| Object::relation(snapshot, schema, &name))
        })
    }
}

impl VisitorMut for Types<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                self.note(data_type)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
