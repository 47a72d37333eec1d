//! Replacement of the name of a schema in the texts of definitions.
//!
//! PostgreSQL binds the objects of a definition by number, so that they stay the same when their
//! schema gets another name. Here definitions are texts: the name is replaced before a table,
//! function, type or sequence, and in the search path of a view. A text in which the same word is
//! also a relation, a column or an alias, so that `s.t.c` may be a field, refuses the change.

use std::cell::Cell;
use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, ObjectNamePart, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Statement as SqlStatement, TableFactor, TypedString,
    VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use terrace_table::error::SqlError;

use crate::names::{CATALOG, SearchPath};
use crate::session::dialect::{TerraceDialect, parsed_expr, parsed_query};
use crate::session::parse::parse;
use crate::session::routines::lookup::stored;
use crate::session::routines::routine::{Form, Returns};
use crate::session::sequence_calls;
use crate::session::sql_type::identifier;
use crate::session::statement::SessionStatement;
use crate::session::walk::Walk;
use crate::session::words::refused;
use crate::view;

/// Replaces the name of a schema in texts.
pub(super) struct SchemaNames<'a> {
    from: &'a str,
    to: &'a str,
    /// True once a text has been found in which the name cannot be replaced.
    is_unclear: Cell<bool>,
}

impl<'a> SchemaNames<'a> {
    pub(super) fn new(from: &'a str, to: &'a str) -> Self {
        Self { from, to, is_unclear: Cell::new(false) }
    }

    /// Returns true if there was a text in which the name could not be replaced, since the last
    /// call of this function.
    pub(super) fn take_unclear(&self) -> bool {
        self.is_unclear.take()
    }

    /// The name of a schema after the change.
    pub(super) fn schema<'b>(&'b self, name: &'b str) -> &'b str {
        if name == self.from { self.to } else { name }
    }

    /// The stored text of a view after the change.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn view(&self, text: &str) -> Result<String, SqlError> {
        let path = |text: &str| self.path(text);
        let statement = |text: &str| {
            self.replaced(text, |text| {
                let statement = parse(text)?.pop().and_then(SessionStatement::into_sql);
                statement.ok_or_else(|| SqlError::Task("the text of a view is damaged".to_owned()))
            })
        };
        view::changed(text, path, statement)
    }

    /// The text of a search path after the change. The new name, which no schema has had, is
    /// removed from the path before.
    fn path(&self, text: &str) -> String {
        let path = SearchPath::parse(text);
        let is_in = |name: &str| path.schemas().iter().any(|schema| schema == name);
        match is_in(self.from) || is_in(self.to) {
            true => path.renamed(self.from, self.to),
            false => text.to_owned(),
        }
    }

    /// The text of an expression after the change.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn expression(&self, text: &str) -> Result<String, SqlError> {
        self.replaced(text, parsed_expr)
    }

    /// The stored text of a function or macro after the change. A body in a string is not changed,
    /// as in PostgreSQL.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn routine(&self, text: &str) -> Result<String, SqlError> {
        let mut routine = stored(text)?;
        let before = routine.clone();
        routine.schema = routine.schema.map(|schema| self.schema(&schema).to_owned());
        for parameter in &mut routine.parameters {
            if let Some(of) = &mut parameter.data_type {
                *of = self.data_type(of)?;
            }
            if let Some(default) = &mut parameter.default {
                *default = self.expression(default)?;
            }
        }
        match &mut routine.form {
            Form::Macro => routine.body = self.expression(&routine.body)?,
            Form::TableMacro => routine.body = self.replaced(&routine.body, parsed_query)?,
            Form::Function(function) => {
                match &mut function.returns {
                    Returns::Value(of) | Returns::Rows(of) => *of = self.data_type(of)?,
                    Returns::Table(columns) => {
                        for (_, of) in columns {
                            *of = self.data_type(of)?;
                        }
                    }
                }
                if function.is_expression {
                    routine.body = self.expression(&routine.body)?;
                }
            }
        }
        Ok(if routine == before { text.to_owned() } else { routine.to_string() })
    }

    /// The text of a type after the change.
    fn data_type(&self, text: &str) -> Result<String, SqlError> {
        if !self.mentions(text)?.is_qualifier {
            return Ok(text.to_owned());
        }
        let Expr::Cast { mut data_type, .. } = parsed_expr(&format!("CAST(NULL AS {text})"))?
        else {
            return Ok(text.to_owned());
        };
        self.visitor(false).data_type(&mut data_type);
        self.checked(text, data_type.to_string(), false)
    }

    /// A text after the change of the names in it.
    fn replaced<N: Walk + ToString>(
        &self,
        text: &str,
        parse: impl Fn(&str) -> Result<N, SqlError>,
    ) -> Result<String, SqlError> {
        let mentions = self.mentions(text)?;
        let calls = sequence_calls::may_call(text) && text.contains(self.from);
        if !mentions.is_qualifier && !calls {
            return Ok(text.to_owned());
        }
        let mut node = parse(text)?;
        let mut visitor = self.visitor(mentions.is_name);
        let _ = node.walk(&mut visitor);
        let is_unclear = visitor.is_unclear;
        sequence_calls::rename_schema(&mut node, self.from, self.to);
        self.checked(text, node.to_string(), is_unclear || mentions.is_name)
            .inspect(|_| self.is_unclear.set(self.is_unclear.get() || is_unclear))
    }

    /// Returns `changed`, the text after the replacement, and marks the text as unclear if the
    /// former name is still in it, unless `may_be_left`: the name is also that of something else.
    fn checked(&self, text: &str, changed: String, may_be_left: bool) -> Result<String, SqlError> {
        if !may_be_left && self.mentions(&changed)?.is_qualifier {
            self.is_unclear.set(true);
            return Ok(text.to_owned());
        }
        Ok(changed)
    }

    fn visitor(&self, is_name: bool) -> Names<'_> {
        Names { from: self.from, to: self.to, is_name, is_unclear: false }
    }

    fn mentions(&self, text: &str) -> Result<Mentions, SqlError> {
        let mut mentions = Mentions::default();
        if !text.to_lowercase().contains(&self.from.to_lowercase()) && !self.from.contains('"') {
            return Ok(mentions);
        }
        let tokens = Tokenizer::new(&TerraceDialect, text).tokenize();
        let tokens = tokens.map_err(|error| SqlError::from(refused(error.into())))?;
        let tokens: Vec<&Token> =
            tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
        for (place, token) in tokens.iter().enumerate() {
            let Token::Word(word) = token else { continue };
            let ident = Ident { quote_style: word.quote_style, ..Ident::new(&word.value) };
            if normal(&ident) != self.from {
                continue;
            }
            let is_before_period = tokens.get(place + 1).is_some_and(|it| **it == Token::Period);
            let is_behind_period =
                place.checked_sub(1).is_some_and(|before| *tokens[before] == Token::Period);
            let names_catalog = is_behind_period
                && place.checked_sub(2).is_some_and(|before| match tokens[before] {
                    Token::Word(word) => word.value.eq_ignore_ascii_case(CATALOG),
                    _ => false,
                });
            match is_before_period && (!is_behind_period || names_catalog) {
                true => mentions.is_qualifier = true,
                false => mentions.is_name = true,
            }
        }
        Ok(mentions)
    }
}

/// Uses of a word in a text.
#[derive(Default)]
struct Mentions {
    /// True if a period follows the word somewhere, as it follows the name of a schema.
    is_qualifier: bool,
    /// True if the word is also used otherwise, as the name of a relation, a column or a function.
    is_name: bool,
}

/// Replaces the name of a schema in a syntax tree.
struct Names<'a> {
    from: &'a str,
    to: &'a str,
    /// True if the name is that of a relation, a column or a function too.
    is_name: bool,
    /// True once the name of the schema may have another meaning.
    is_unclear: bool,
}

impl Names<'_> {
    /// Replaces the schema of an object. Returns true if it is the one that gets another name.
    fn object(&self, name: &mut ObjectName) -> bool {
        let place = match name.0.len() {
            2 => 0,
            3 if is_catalog(&name.0[0]) => 1,
            _ => return false,
        };
        let is_it = name.0[place].as_ident().is_some_and(|ident| normal(ident) == self.from);
        if is_it {
            name.0[place] = ObjectNamePart::Identifier(self.new_name());
        }
        is_it
    }

    fn new_name(&self) -> Ident {
        match identifier(self.to) == self.to {
            true => Ident::new(self.to),
            false => Ident::with_quote('"', self.to),
        }
    }

    /// Replaces the schema in the name of a column: `s.t.c`, which may be a field of a column.
    fn column(&mut self, parts: &mut [Ident]) {
        let place = match parts {
            [catalog, _, _, _, ..] if normal(catalog) == CATALOG => 1,
            [_, _, _, ..] => 0,
            _ => return,
        };
        if normal(&parts[place]) == self.from {
            parts[place] = self.new_name();
            self.is_unclear |= self.is_name;
        }
    }

    /// Replaces the schema of a function; `s.f()` may be the function `f` of a column.
    fn function(&mut self, name: &mut ObjectName) {
        self.is_unclear |= self.object(name) && self.is_name;
    }

    fn data_type(&self, of: &mut DataType) {
        match of {
            DataType::Custom(name, _) => {
                self.object(name);
            }
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, _),
            ) => self.data_type(item),
            DataType::Struct(fields, _) => {
                fields.iter_mut().for_each(|field| self.data_type(&mut field.field_type));
            }
            _ => {}
        }
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        if let SqlStatement::CreateView(create) = statement {
            self.object(&mut create.name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        self.object(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Function { name, .. } = factor {
            self.object(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                _,
            ) = item
            {
                self.function(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) => self.column(parts),
            Expr::Function(call) => self.function(&mut call.name),
            Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
                self.data_type(data_type);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_catalog(part: &ObjectNamePart) -> bool {
    part.as_ident().is_some_and(|ident| normal(ident) == CATALOG)
}

fn normal(ident: &Ident) -> String {
    IdentNormalizer::default().normalize(ident.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_schema_are_replaced() {
        let names = SchemaNames::new("s", "new one");
        for (text, expected) in [
            ("s.f(a) + 1", "\"new one\".f(a) + 1"),
            ("nextval('s.q')", "nextval('\"new one\".q')"),
            ("CAST(a AS s.mood)", "CAST(a AS \"new one\".mood)"),
            ("s.t.c > 1", "\"new one\".t.c > 1"),
            ("(SELECT max(t.a) FROM S.t)", "(SELECT max(t.a) FROM \"new one\".t)"),
            ("a.s + b", "a.s + b"),
            ("'s.t'", "'s.t'"),
        ] {
            assert_eq!(names.expression(text).expect("an expression"), expected, "{text}");
            assert!(!names.take_unclear(), "{text}");
        }
        for text in ["(SELECT s.t.c FROM u AS s)", "s.x + 1"] {
            names.expression(text).expect("an expression");
            assert!(names.take_unclear(), "{text}");
        }
        let text = "(SELECT s.c FROM s.t AS s)";
        let changed = names.expression(text).expect("an expression");
        assert_eq!(changed, "(SELECT s.c FROM \"new one\".t AS s)");
        assert!(!names.take_unclear());
    }

    #[test]
    fn paths_of_views_are_replaced() {
        let names = SchemaNames::new("s", "t");
        assert_eq!(names.path("s, public"), "t, public");
        assert_eq!(names.path("t, s"), "t");
        assert_eq!(names.path("pg_temp_3, s"), "pg_temp_3, t");
        assert_eq!(names.path("public"), "public");
    }
}
