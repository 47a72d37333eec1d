//! Arguments of the table functions over files: paths, and options by name.
//!
//! An option is `name = value`, as in DuckDB, `name => value`, as in PostgreSQL, or `name :=
//! value`. Values are constants.

use datafusion::common::{Result, plan_err};
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, UnaryOperator, Value as Literal,
};
use terrace_cloud::CloudFiles;

/// The arguments of a call of a table function over files.
#[derive(Debug)]
pub(super) struct Arguments {
    function: String,
    /// Paths and patterns, from the first argument.
    pub(super) paths: Vec<String>,
    /// Access to remote files (S3, HTTP).
    pub(super) cloud: CloudFiles,
    options: Vec<(String, Value)>,
}

/// A constant argument or option value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Text(String),
    Number(String),
    Boolean(bool),
    List(Vec<Value>),
    Struct(Vec<(String, Value)>),
}

impl Arguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// A first argument that is no path, further unnamed ones, repeated names, and values that are
    /// not constant.
    pub(super) fn of(
        function: &str,
        arguments: &[FunctionArg],
        cloud: &CloudFiles,
    ) -> Result<Self> {
        let (mut paths, mut options) = (None, Vec::<(String, Value)>::new());
        for argument in arguments {
            match named(argument) {
                Some((name, expr)) => {
                    if options.iter().any(|(known, _)| *known == name) {
                        return plan_err!("{function} has the option {name} twice");
                    }
                    options.push((name.clone(), constant(expr, &format!("{function}: {name}"))?));
                }
                None if paths.is_none() => {
                    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
                        return plan_err!("{function} takes a path, not {argument}");
                    };
                    paths = Some(paths_of(function, constant(expr, function)?)?);
                }
                None => {
                    return plan_err!(
                        "{function} takes one path, or a list of paths: ['a', 'b']; name its \
                         options: option = {argument}"
                    );
                }
            }
        }
        match paths {
            Some(paths) => {
                let (function, cloud) = (function.to_owned(), cloud.clone());
                Ok(Self { function, paths, cloud, options })
            }
            None => plan_err!("{function} takes a path: {function}('file')"),
        }
    }

    /// Removes the option `name`, and returns its value.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        let place = self.options.iter().position(|(known, _)| known == name)?;
        Some(self.options.swap_remove(place).1)
    }

    /// Removes the option `name`, and returns its value, a text.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(value) => self.wrong(name, "a text", &value),
        }
    }

    /// Removes the option `name`, and returns its value: a Boolean, 0, 1, `'true'` or `'false'`.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Boolean(value)) => Ok(Some(value)),
            Some(Value::Number(text)) if text == "1" => Ok(Some(true)),
            Some(Value::Number(text)) if text == "0" => Ok(Some(false)),
            Some(Value::Text(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::Text(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(value) => self.wrong(name, "true or false", &value),
        }
    }

    /// Removes the option `name`, and returns its value, an integer.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i64>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(text)) if text.parse::<i64>().is_ok() => Ok(text.parse().ok()),
            Some(value) => self.wrong(name, "an integer", &value),
        }
    }

    /// Removes the first option that has one of the `names`, and returns its value, one ASCII
    /// character: `Some(None)` for an empty text, `None` without such an option.
    ///
    /// # Errors
    /// A value of another type or length.
    pub(super) fn character(&mut self, names: &[&str]) -> Result<Option<Option<u8>>> {
        for name in names {
            let Some(text) = self.text(name)? else { continue };
            return match text.as_bytes() {
                [] => Ok(Some(None)),
                b"\\t" => Ok(Some(Some(b'\t'))),
                [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => {
                    Ok(Some(Some(*byte)))
                }
                _ => self.wrong(name, "one character of ASCII", &Value::Text(text)),
            };
        }
        Ok(None)
    }

    /// Removes the option `filename`, and returns the name of the column of file names, which
    /// `true` stands for, too.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn filename(&mut self) -> Result<Option<String>> {
        match self.take("filename") {
            None | Some(Value::Boolean(false)) => Ok(None),
            Some(Value::Boolean(true)) => Ok(Some("filename".to_owned())),
            Some(Value::Text(name)) if !name.is_empty() => Ok(Some(name)),
            Some(value) => self.wrong("filename", "true, false or a name", &value),
        }
    }

    /// Removes the option `name`, and returns its value, a text or a list of texts.
    ///
    /// # Errors
    /// A value of another type.
    pub(super) fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match texts(value.clone()) {
            Some(texts) => Ok(Some(texts)),
            None => self.wrong(name, "a text or a list of texts", &value),
        }
    }

    /// The error for a value of another type than `expected`.
    ///
    /// # Errors
    /// Always.
    pub(super) fn wrong<T>(&self, name: &str, expected: &str, value: &Value) -> Result<T> {
        plan_err!("{}: {name} is {expected}, not {value}", self.function)
    }

    /// Refuses options that no call has removed, which the function does not have; `known` lists
    /// the options that it has, for the error.
    ///
    /// # Errors
    /// If there are any.
    pub(super) fn finish(&self, known: &str) -> Result<()> {
        match self.options.first() {
            None => Ok(()),
            Some((name, _)) => {
                plan_err!("{} has no option {name}; its options are {known}", self.function)
            }
        }
    }
}

/// The name and the value of a named argument.
fn named(argument: &FunctionArg) -> Option<(String, &Expr)> {
    match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
            Some((name.value.to_ascii_lowercase(), value))
        }
        FunctionArg::ExprNamed {
            name: Expr::Identifier(name),
            arg: FunctionArgExpr::Expr(value),
            ..
        } => Some((name.value.to_ascii_lowercase(), value)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        })) => match left.as_ref() {
            Expr::Identifier(name) => Some((name.value.to_ascii_lowercase(), right)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the value of an expression, which must be a constant; `what` names the argument for the
/// error.
fn constant(expr: &Expr, what: &str) -> Result<Value> {
    let values = |exprs: &[Expr]| -> Result<Vec<Value>> {
        exprs.iter().map(|expr| constant(expr, what)).collect()
    };
    match expr {
        Expr::Nested(inner) => constant(inner, what),
        Expr::Value(literal) => match &literal.value {
            Literal::Null => Ok(Value::Null),
            Literal::Boolean(value) => Ok(Value::Boolean(*value)),
            Literal::Number(text, _) => Ok(Value::Number(text.to_string())),
            literal => match literal.clone().into_string() {
                Some(text) => Ok(Value::Text(text)),
                None => plan_err!("{what} takes constants, not {expr}"),
            },
        },
        Expr::TypedString(literal) => match literal.value.clone().into_string() {
            Some(text) => Ok(Value::Text(text)),
            None => plan_err!("{what} takes constants, not {expr}"),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: operand } => {
            match constant(operand, what)? {
                Value::Number(text) => Ok(Value::Number(format!("-{text}"))),
                _ => plan_err!("{what} takes constants, not {expr}"),
            }
        }
        Expr::Array(Array { elem, .. }) => Ok(Value::List(values(elem)?)),
        Expr::Dictionary(fields) => {
            let fields = fields.iter().map(|field| {
                let name = field.key.value.clone();
                Ok((name, constant(&field.value, what)?))
            });
            Ok(Value::Struct(fields.collect::<Result<_>>()?))
        }
        Expr::Map(map) => {
            let fields = map.entries.iter().map(|entry| {
                match (constant(&entry.key, what)?, constant(&entry.value, what)?) {
                    (Value::Text(name), value) => Ok((name, value)),
                    (key, _) => plan_err!("{what} has the key {key}, which is no text"),
                }
            });
            Ok(Value::Struct(fields.collect::<Result<_>>()?))
        }
        _ => plan_err!("{what} takes constants, not {expr}"),
    }
}

fn texts(value: Value) -> Option<Vec<String>> {
    match value {
        Value::Text(text) => Some(vec![text]),
        Value::List(values) => values
            .into_iter()
            .map(|value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

fn paths_of(function: &str, value: Value) -> Result<Vec<String>> {
    match texts(value.clone()) {
        Some(paths) if !paths.is_empty() && paths.iter().all(|path| !path.is_empty()) => Ok(paths),
        _ => plan_err!("{function} takes a path or a list of paths, not {value}"),
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Number(text) => f.write_str(text),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", values.join(", "))
            }
            Self::Struct(fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, value)| format!("'{name}': {value}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
        }
    }
}
