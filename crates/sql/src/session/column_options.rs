//! Defaults and constraints of `CREATE TABLE` and `ALTER TABLE ... ADD COLUMN`, as written.

use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, Expr, Ident, Statement as SqlStatement,
    TableConstraint,
};
use terrace_table::error::SqlError;

/// Properties of a new table, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Columns, and the text of their default.
    pub(super) defaults: Vec<(String, String)>,
    pub(super) checks: Vec<WrittenCheck>,
}

/// A CHECK constraint, as written.
#[derive(Clone, Debug)]
pub(super) struct WrittenCheck {
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    /// Text of the condition.
    pub(super) text: String,
}

/// Removes defaults and CHECK constraints from a CREATE TABLE, which is then planned without them.
///
/// # Errors
/// [`SqlError::Refused`] for two defaults of one column.
pub(super) fn take(statement: &mut Statement) -> Result<Written, SqlError> {
    let mut written = Written::default();
    let Statement::Statement(statement) = statement else { return Ok(written) };
    let SqlStatement::CreateTable(create) = statement.as_mut() else { return Ok(written) };
    for column in &mut create.columns {
        written.take(column)?;
    }
    let constraints = std::mem::take(&mut create.constraints);
    for constraint in constraints {
        match constraint {
            TableConstraint::Check(check) => written.checks.push(WrittenCheck {
                name: check.name.map(normalized),
                text: text_of(&check.expr),
            }),
            other => create.constraints.push(other),
        }
    }
    Ok(written)
}

impl Written {
    /// Removes the default and the CHECK constraints of a column.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a second default.
    pub(super) fn take(&mut self, column: &mut ColumnDef) -> Result<(), SqlError> {
        let name = normalized(column.name.clone());
        let options = std::mem::take(&mut column.options);
        for ColumnOptionDef { name: constraint, option } in options {
            match option {
                ColumnOption::Default(_) if self.has_default(&name) => {
                    return Err(refused(&format!("a second DEFAULT for column {name}"), "say one"));
                }
                ColumnOption::Default(value) => {
                    self.defaults.push((name.clone(), text_of(&value)));
                }
                ColumnOption::Check(check) => self.checks.push(WrittenCheck {
                    name: constraint.or(check.name).map(normalized),
                    text: text_of(&check.expr),
                }),
                option => column.options.push(ColumnOptionDef { name: constraint, option }),
            }
        }
        Ok(())
    }

    fn has_default(&self, column: &str) -> bool {
        self.defaults.iter().any(|(name, _)| name == column)
    }
}

/// Returns the text of an expression that is stored, without parentheses around it.
pub(super) fn text_of(expr: &Expr) -> String {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        expr => expr.to_string(),
    }
}

/// Returns a name as it is looked up: in lower case unless it is quoted.
pub(super) fn normalized(name: Ident) -> String {
    IdentNormalizer::default().normalize(name)
}

fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() }
}
