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
    /// A text that tells it from others of its name in the schema.
    pub key: String,
    /// Name and type of each parameter. A parameter of a function may have no name, one of a macro
    /// no type.
    pub parameters: Vec<(Option<String>, Option<String>)>,
    /// Number of the parameters that have a default.
    pub defaults: usize,
    /// Type of the result; `None` for that of a macro, and for rows of several columns.
    pub returns: Option<String>,
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
    /// The statement that defines it.
    pub definition: String,
    /// Role that owns it; `None` if a session without a role created it.
    pub owner: Option<String>,
}

/// The functions and macros of a schema, by name.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn routines(snapshot: &Snapshot, schema: &str) -> Result<Vec<RoutineReport>, SqlError> {
    let texts = snapshot.texts(TextKind::Function, schema).into_iter();
    let reports = texts.map(|(key, object)| {
        let routine = stored(&object.text)?;
        let (returns, is_strict, volatility) = match &routine.form {
            Form::Function(function) => {
                let returns = match &function.returns {
                    Returns::Value(of) | Returns::Rows(of) => Some(of.clone()),
                    Returns::Table(_) => None,
                };
                (returns, function.is_strict, function.volatility)
            }
            Form::Macro | Form::TableMacro => (None, false, Volatility::default()),
        };
        let parameters = routine.parameters.iter();
        Ok(RoutineReport {
            schema: schema.to_owned(),
            key,
            defaults: parameters.clone().filter(|it| it.default.is_some()).count(),
            parameters: parameters.map(|it| (it.name.clone(), it.data_type.clone())).collect(),
            returns,
            returns_rows: routine.returns_rows(),
            is_macro: routine.is_macro(),
            is_strict,
            volatility: volatility.keyword(),
            definition: object.text.clone(),
            owner: object.owner.clone(),
            name: routine.name,
            body: routine.body,
        })
    });
    reports.collect()
}
