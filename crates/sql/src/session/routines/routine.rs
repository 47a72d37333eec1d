//! Functions and macros, and the statements that define and drop them.

use std::fmt;

use crate::session::object_change::ObjectChange;
use crate::session::sql_type::identifier;

/// A function in SQL, or a macro. Expressions, queries and types are kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routine {
    /// The schema, if the statement names it.
    pub(in crate::session) schema: Option<String>,
    pub(in crate::session) name: String,
    pub(in crate::session) parameters: Vec<Parameter>,
    pub(in crate::session) form: Form,
    /// An expression, or a query.
    pub(in crate::session) body: String,
}

/// A parameter. A parameter of a macro has no type unless the definition gives it one; that of a
/// function may have no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct Parameter {
    pub(in crate::session) name: Option<String>,
    pub(in crate::session) data_type: Option<String>,
    pub(in crate::session) default: Option<String>,
}

/// The form of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum Form {
    /// A macro whose body is an expression.
    Macro,
    /// A macro whose body is a query.
    TableMacro,
    /// A function in SQL.
    Function(Function),
}

/// Properties of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct Function {
    pub(in crate::session) returns: Returns,
    pub(in crate::session) language: Option<String>,
    pub(in crate::session) volatility: Volatility,
    /// True if a null argument makes the result null, or empty.
    pub(in crate::session) is_strict: bool,
    /// True for SECURITY DEFINER.
    pub(in crate::session) has_rights_of_owner: bool,
    /// True if the body is an expression behind RETURN, false for a query in a string.
    pub(in crate::session) is_expression: bool,
}

/// The result of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum Returns {
    /// One value of a type.
    Value(String),
    /// Rows of a type, or of the columns of a table.
    Rows(String),
    /// Rows of these columns, each a name and a type.
    Table(Vec<(String, String)>),
}

/// The volatility class of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) enum Volatility {
    Immutable,
    Stable,
    #[default]
    Volatile,
}

impl Volatility {
    pub(in crate::session) const ALL: [Self; 3] = [Self::Immutable, Self::Stable, Self::Volatile];

    pub(in crate::session) fn keyword(self) -> &'static str {
        match self {
            Self::Immutable => "IMMUTABLE",
            Self::Stable => "STABLE",
            Self::Volatile => "VOLATILE",
        }
    }
}

impl Routine {
    /// The name of the routine in the catalog, unique among its overloads: it includes the number
    /// of parameters, and the kind of a table macro.
    pub(in crate::session) fn key(&self) -> String {
        let kind = if self.form == Form::TableMacro { "/table" } else { "" };
        format!("{}/{}{kind}", self.name, self.parameters.len())
    }

    /// The name in a key.
    pub(in crate::session) fn name_in(key: &str) -> &str {
        let key = key.strip_suffix("/table").unwrap_or(key);
        key.rsplit_once('/').map_or(key, |(name, _)| name)
    }

    /// True if a call in FROM returns several columns or rows.
    pub(in crate::session) fn returns_rows(&self) -> bool {
        match &self.form {
            Form::Macro => false,
            Form::TableMacro => true,
            Form::Function(function) => !matches!(function.returns, Returns::Value(_)),
        }
    }

    /// True for a macro.
    pub(in crate::session) fn is_macro(&self) -> bool {
        !matches!(self.form, Form::Function(_))
    }

    /// The noun of the form.
    pub(in crate::session) fn noun(&self) -> &'static str {
        match self.form {
            Form::Macro => "macro",
            Form::TableMacro => "table macro",
            Form::Function(_) => "function",
        }
    }

    /// The name with its parameters, for errors.
    pub(in crate::session) fn signature(&self) -> String {
        let parameters: Vec<_> = self.parameters.iter().map(ToString::to_string).collect();
        format!("{}({})", identifier(&self.name), parameters.join(", "))
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, data_type, default } = self;
        let name = name.as_deref().map(identifier);
        let words: Vec<&str> =
            [name.as_deref(), data_type.as_deref()].into_iter().flatten().collect();
        f.write_str(&words.join(" "))?;
        match default {
            Some(default) => write!(f, " := {default}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Returns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(of) => f.write_str(of),
            Self::Rows(of) => write!(f, "SETOF {of}"),
            Self::Table(columns) => {
                let column = |(name, of): &(String, String)| format!("{} {of}", identifier(name));
                let columns: Vec<_> = columns.iter().map(column).collect();
                write!(f, "TABLE({})", columns.join(", "))
            }
        }
    }
}

/// The statement that defines the routine, as the catalog stores it.
impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema.as_deref().map(|schema| format!("{}.", identifier(schema)));
        let noun = if self.is_macro() { "MACRO" } else { "FUNCTION" };
        write!(f, "CREATE {noun} {}{}", schema.unwrap_or_default(), self.signature())?;
        let body = &self.body;
        let function = match &self.form {
            Form::Macro => return write!(f, " AS {body}"),
            Form::TableMacro => return write!(f, " AS TABLE {body}"),
            Form::Function(function) => function,
        };
        write!(f, " RETURNS {}", function.returns)?;
        if let Some(language) = &function.language {
            write!(f, " LANGUAGE {}", identifier(language))?;
        }
        write!(f, " {}", function.volatility.keyword())?;
        f.write_str(if function.is_strict { " STRICT" } else { "" })?;
        f.write_str(if function.has_rights_of_owner { " SECURITY DEFINER" } else { "" })?;
        match function.is_expression {
            true => write!(f, " RETURN {body}"),
            false => write!(f, " AS '{}'", body.replace('\'', "''")),
        }
    }
}

/// A statement that defines or drops functions or macros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutineStatement {
    /// Defines one function, or the overloads of a macro.
    Create {
        /// The definitions.
        routines: Vec<Routine>,
        /// True for OR REPLACE.
        replace: bool,
        /// True for IF NOT EXISTS.
        keep: bool,
        /// True for TEMP: the definitions belong to the session.
        temporary: bool,
    },
    /// Changes the name, the schema or the owner of a function or macro.
    Change {
        /// The function or macro.
        routine: DroppedRoutine,
        /// Its kind.
        kind: DroppedKind,
        /// The change.
        change: ObjectChange,
    },
    /// Drops functions or macros.
    Drop {
        /// The names.
        routines: Vec<DroppedRoutine>,
        /// The kind.
        kind: DroppedKind,
        /// True for IF EXISTS.
        if_exists: bool,
        /// True for CASCADE.
        cascades: bool,
    },
}

/// A function or macro that a statement drops or changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedRoutine {
    pub(in crate::session) schema: Option<String>,
    pub(in crate::session) name: String,
    /// The number of parameters, if the statement lists their types.
    pub(in crate::session) parameters: Option<usize>,
}

/// The kind of object that a DROP or ALTER names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DroppedKind {
    /// `DROP FUNCTION`.
    Function,
    /// `DROP MACRO`.
    Macro,
    /// `DROP MACRO TABLE`.
    TableMacro,
}

impl DroppedKind {
    pub(in crate::session) fn keyword(self) -> &'static str {
        match self {
            Self::Function => "FUNCTION",
            Self::Macro => "MACRO",
            Self::TableMacro => "MACRO TABLE",
        }
    }
}

impl fmt::Display for DroppedRoutine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{}.", identifier(schema))?;
        }
        f.write_str(&identifier(&self.name))
    }
}

impl fmt::Display for RoutineStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { routines, .. } => {
                let texts: Vec<_> = routines.iter().map(ToString::to_string).collect();
                f.write_str(&texts.join("; "))
            }
            Self::Change { routine, kind, change } => {
                write!(f, "ALTER {} {routine} {change}", kind.keyword())
            }
            Self::Drop { routines, kind, if_exists, .. } => {
                let names: Vec<_> = routines.iter().map(ToString::to_string).collect();
                let if_exists = if *if_exists { "IF EXISTS " } else { "" };
                write!(f, "DROP {} {if_exists}{}", kind.keyword(), names.join(", "))
            }
        }
    }
}
