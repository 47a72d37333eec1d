//! Descriptions of functions and macros, for the tables that list them.

use terrace_table::catalog::{Snapshot, TextKind};
use terrace_table::error::SqlError;

use super::lookup::stored;
use super::routine::{Form, Returns, Volatility};

/// A function or macro of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineReport {
    /// Name of the schema.
    pub schema: String,
    /// Name of the function.
    pub name: String,
    /// A text that identifies it among the overloads of its name in the schema.
    pub key: String,
    /// Name and type of each parameter. A parameter of a function may have no name, one of a macro
    /// no type.
    pub parameters: Vec<(Option<String>, Option<String>)>,
    /// The defaults of the parameters.
    pub defaults: Vec<Option<String>>,
    /// Type of the result; `None` for that of a macro, and for rows of several columns.
    pub returns: Option<String>,
    /// Name and type of each column of a result with several.
    pub columns: Vec<(String, String)>,
    /// True for a function that returns rows.
    pub returns_rows: bool,
    /// True for a macro.
    pub is_macro: bool,
    /// True for STRICT.
    pub is_strict: bool,
    /// The keyword of its volatility class.
    pub volatility: &'static str,
    /// The body.
    pub body: String,
    /// True if the body is an expression behind RETURN.
    pub is_expression: bool,
    /// The statement that defines it.
    pub definition: String,
    /// Role that owns it; `None` if a session without a role created it.
    pub owner: Option<String>,
    /// Comment on it.
    pub comment: Option<String>,
}

/// The functions and macros of a schema, by name.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn routines(snapshot: &Snapshot, schema: &str) -> Result<Vec<RoutineReport>, SqlError> {
    let texts = snapshot.texts(TextKind::Function, schema).into_iter();
    let reports = texts.map(|(key, object)| {
        let routine = stored(&object.text)?;
        let (mut returns, mut columns) = (None, Vec::new());
        let (mut is_strict, mut is_expression) = (false, false);
        let mut volatility = Volatility::default();
        if let Form::Function(function) = &routine.form {
            match &function.returns {
                Returns::Value(of) | Returns::Rows(of) => returns = Some(of.clone()),
                Returns::Table(of) => columns.clone_from(of),
            }
            (is_strict, is_expression) = (function.is_strict, function.is_expression);
            volatility = function.volatility;
        }
        let parameters = routine.parameters.iter();
        Ok(RoutineReport {
            schema: schema.to_owned(),
            key,
            defaults: parameters.clone().map(|it| it.default.clone()).collect(),
            parameters: parameters.map(|it| (it.name.clone(), it.data_type.clone())).collect(),
            returns,
            columns,
            returns_rows: routine.returns_rows(),
            is_macro: routine.is_macro(),
            is_strict,
            volatility: volatility.keyword(),
            definition: object.text.clone(),
            owner: object.owner.clone(),
            comment: object.comment.clone(),
            is_expression,
            name: routine.name,
            body: routine.body,
        })
    });
    reports.collect()
}
