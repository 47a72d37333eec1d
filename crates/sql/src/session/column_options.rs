//! Defaults and constraints of `CREATE TABLE` and `ALTER TABLE ... ADD COLUMN`, as written.

use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, DataType, Expr, GeneratedAs, GeneratedExpressionMode,
    Ident, SequenceOptions, Statement as SqlStatement, TableConstraint,
};
use terrace_table::catalog::Identity;
use terrace_table::error::SqlError;

/// Properties of the columns of a new table, or of a new column, as SQL text that is not yet
/// planned.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Names of columns, and the text of their default.
    pub(super) defaults: Vec<(String, String)>,
    pub(super) checks: Vec<WrittenCheck>,
    /// Names of generated columns, and the text of their expression.
    pub(super) generated: Vec<(String, String)>,
    /// Columns with sequences of their own.
    pub(super) sequences: Vec<WrittenSequence>,
}

/// A column with a sequence of its own, as written.
#[derive(Clone, Debug)]
pub(super) struct WrittenSequence {
    pub(super) column: String,
    /// `None` for SERIAL.
    pub(super) identity: Option<Identity>,
    /// Text of the options of the sequence.
    pub(super) options: String,
}

/// A CHECK constraint, as written.
#[derive(Clone, Debug)]
pub(super) struct WrittenCheck {
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    /// Text of the condition.
    pub(super) text: String,
}

/// Removes defaults, generated columns, sequences and CHECK constraints from a CREATE TABLE, which
/// is then planned without them.
///
/// # Errors
/// [`SqlError::Refused`] for a column with two of a default, an expression and a sequence.
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
    /// Removes the default, the expression, the sequence and the CHECK constraints of a column.
    ///
    /// # Errors
    /// [`SqlError::Refused`] if the column has two of a default, an expression and a sequence.
    pub(super) fn take(&mut self, column: &mut ColumnDef) -> Result<(), SqlError> {
        let name = normalized(column.name.clone());
        let options = std::mem::take(&mut column.options);
        self.take_serial(&name, column)?;
        for ColumnOptionDef { name: constraint, option } in options {
            match option {
                ColumnOption::Default(_) if self.has_default(&name) => {
                    return Err(refused(&format!("a second DEFAULT for column {name}"), "say one"));
                }
                ColumnOption::Default(_) | ColumnOption::Generated { .. }
                    if self.has_value(&name) =>
                {
                    return Err(second_value(&name));
                }
                ColumnOption::Generated {
                    generated_as,
                    sequence_options,
                    generation_expr,
                    generation_expr_mode,
                    ..
                } => match generation_expr {
                    Some(expr) => self.take_expression(&name, &expr, generation_expr_mode)?,
                    None => self.take_identity(&name, &generated_as, sequence_options),
                },
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
        let has_sequence = self.sequences.iter().any(|sequence| sequence.column == name);
        let is_not_null = |option: &ColumnOptionDef| option.option == ColumnOption::NotNull;
        if has_sequence && !column.options.iter().any(is_not_null) {
            column.options.push(ColumnOptionDef { name: None, option: ColumnOption::NotNull });
        }
        Ok(())
    }

    /// Replaces a SERIAL type by the integer type of its width, and records its sequence.
    fn take_serial(&mut self, name: &str, column: &mut ColumnDef) -> Result<(), SqlError> {
        let DataType::Custom(of, _) = &column.data_type else { return Ok(()) };
        column.data_type = match of.to_string().to_ascii_lowercase().as_str() {
            "serial" | "serial4" => DataType::Integer(None),
            "bigserial" | "serial8" => DataType::BigInt(None),
            "smallserial" | "serial2" => DataType::SmallInt(None),
            _ => return Ok(()),
        };
        let (column, options) = (name.to_owned(), String::new());
        self.sequences.push(WrittenSequence { column, identity: None, options });
        Ok(())
    }

    fn take_expression(
        &mut self,
        name: &str,
        expr: &Expr,
        mode: Option<GeneratedExpressionMode>,
    ) -> Result<(), SqlError> {
        if mode == Some(GeneratedExpressionMode::Virtual) {
            let what = format!("the VIRTUAL generated column {name}");
            return Err(refused(
                &what,
                "say STORED: the values are computed when rows are written",
            ));
        }
        self.generated.push((name.to_owned(), text_of(expr)));
        Ok(())
    }

    fn take_identity(
        &mut self,
        name: &str,
        generated_as: &GeneratedAs,
        options: Option<Vec<SequenceOptions>>,
    ) {
        let identity = match generated_as {
            GeneratedAs::ByDefault => Identity::ByDefault,
            _ => Identity::Always,
        };
        let options = options.unwrap_or_default();
        self.sequences.push(WrittenSequence {
            column: name.to_owned(),
            identity: Some(identity),
            options: options.iter().map(ToString::to_string).collect(),
        });
    }

    /// True for a column with a default, a generation expression, or a sequence of its own.
    fn has_value(&self, column: &str) -> bool {
        self.has_default(column)
            || self.generated.iter().any(|(name, _)| name == column)
            || self.sequences.iter().any(|sequence| sequence.column == column)
    }

    fn has_default(&self, column: &str) -> bool {
        self.defaults.iter().any(|(name, _)| name == column)
    }
}

/// Returns the text of an expression as the catalog stores it: without parentheses around it.
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

fn second_value(column: &str) -> SqlError {
    let what = format!("a DEFAULT, a generation expression or a sequence together for {column}");
    refused(&what, "say one of them")
}

fn refused(what: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: what.to_owned(), instead: instead.to_owned() }
}
