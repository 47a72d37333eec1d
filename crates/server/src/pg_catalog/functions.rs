//! Functions with which clients look up the objects of a database.
//!
//! A function has a body that computes one row, and is listed in a table of one of the modules
//! below.

mod definitions;
mod facts;
mod format;
mod keywords;
mod names;
mod texts;
mod transactions;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err, plan_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};

use super::objects::{Object, Objects};
use super::value::{self, Row, Value};
use super::{Source, oids};
use crate::postgres::TYPE_KEY;

pub(super) use keywords::Keywords;

/// Return types of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Returns {
    Bool,
    Int4,
    Int8,
    Oid,
    Xid,
    Text,
    Texts,
    Ints,
    Time,
    /// A list of pairs `x` and `n`.
    Pairs,
    /// A list of privileges, as `aclexplode` returns them.
    Grants,
}

/// Computes the value of a function for a row; the arguments may have any type.
type Body = fn(&Call<'_>, &[ScalarValue]) -> Result<Value>;

/// The definition of a function.
#[derive(Clone, Copy)]
struct Definition {
    name: &'static str,
    /// Minimum and maximum number of arguments.
    arguments: (usize, usize),
    returns: Returns,
    /// True if a null argument makes the result null.
    is_strict: bool,
    volatility: Volatility,
    body: Body,
}

/// Defines a function without effects that is null if an argument is.
const fn strict(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    let volatility = Volatility::Stable;
    Definition { name, arguments, returns, is_strict: true, volatility, body }
}

/// Defines a function that is called with nulls as well.
const fn lenient(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    Definition { is_strict: false, ..strict(name, arguments, returns, body) }
}

/// Defines a function that has an effect, once for each row.
const fn acting(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    Definition { volatility: Volatility::Volatile, ..strict(name, arguments, returns, body) }
}

/// Returns the functions of a session.
pub(super) fn all(source: &Source) -> Vec<ScalarUDF> {
    let tables = [
        definitions::FUNCTIONS,
        facts::FUNCTIONS,
        format::FUNCTIONS,
        names::FUNCTIONS,
        texts::FUNCTIONS,
        transactions::FUNCTIONS,
    ];
    let tables = tables.concat();
    let function = |definition: Definition| {
        let (least, most) = definition.arguments;
        let signatures = (least..=most).map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = Signature::one_of(signatures.collect(), definition.volatility);
        ScalarUDF::from(Function { definition, signature, source: source.clone() })
    };
    tables.into_iter().map(function).collect()
}

/// Returns the rows of `pg_proc`: the session's functions, and the input and output functions of
/// types.
pub(super) fn rows(source: &Source) -> Vec<Row> {
    let any = super::types::by_name("any").map_or(0, |of| of.oid);
    let row = |oid: i64, name: &str, kind: &str| -> Row {
        vec![
            ("oid", oid.into()),
            ("proname", name.into()),
            ("pronamespace", oids::PG_CATALOG.into()),
            ("proowner", oids::OWNER.into()),
            ("procost", 1.0.into()),
            ("prokind", kind.into()),
            ("provolatile", "s".into()),
            ("proparallel", "s".into()),
            ("prorettype", any.into()),
            ("proargtypes", Value::Ints(vec![])),
            ("prosrc", name.into()),
        ]
    };
    let own = source.functions.get().into_iter().flatten();
    let own = own.map(|(name, kind)| row(oids::hashed(&[name]), name, kind));
    let of_types = super::types::functions().map(|(oid, name)| row(oid, name, "f"));
    own.chain(of_types).collect()
}

/// A call of a function for the rows of a batch.
struct Call<'a> {
    source: &'a Source,
    /// The schema in which unqualified names are resolved.
    path: &'a str,
    objects: OnceCell<Arc<Objects>>,
    /// The types of the arguments.
    types: Vec<DataType>,
}

impl Call<'_> {
    /// Returns the schemas and relations of the database.
    fn objects(&self) -> &Arc<Objects> {
        self.objects.get_or_init(|| Arc::new(Objects::of(&self.source.names)))
    }

    /// Returns the relation that an argument names or whose OID it is; `None` if no relation has
    /// the OID.
    ///
    /// # Errors
    /// A name that no relation has.
    fn relation(&self, argument: &ScalarValue) -> Result<Option<&Object>> {
        if let Some(oid) = integer(argument) {
            return Ok(self.objects().relation(oid));
        }
        let name = text(argument).unwrap_or_default();
        match self.relation_named(&name) {
            Some(found) => Ok(Some(found)),
            None => Err(missing("relation", &name)),
        }
    }

    fn relation_named(&self, name: &str) -> Option<&Object> {
        let parts = texts::identifiers(name)?;
        let mut parts = parts.iter().rev();
        let name = parts.next()?;
        self.objects().named(parts.next().map(String::as_str), name, self.path)
    }
}

/// Returns the error for a name that does not exist.
fn missing(what: &str, name: &str) -> datafusion::common::DataFusionError {
    plan_datafusion_err!("{what} {name:?} not found")
}

/// Returns an argument as a text.
fn text(argument: &ScalarValue) -> Option<String> {
    match argument.cast_to(&DataType::Utf8) {
        Ok(ScalarValue::Utf8(text)) => text,
        _ => None,
    }
}

/// Returns an argument as an integer, if it is one or the text of one.
fn integer(argument: &ScalarValue) -> Option<i64> {
    match argument.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    }
}

/// True if an argument is true.
fn is_true(argument: Option<&ScalarValue>) -> bool {
    argument.is_some_and(|argument| *argument == ScalarValue::Boolean(Some(true)))
}

/// Returns the items of an array argument; `None` for an argument that is not an array.
fn items(argument: &ScalarValue) -> Option<ArrayRef> {
    match argument {
        ScalarValue::List(list) => (!list.is_null(0)).then(|| list.value(0)),
        ScalarValue::LargeList(list) => (!list.is_null(0)).then(|| list.value(0)),
        ScalarValue::FixedSizeList(list) => (!list.is_null(0)).then(|| list.value(0)),
        _ => None,
    }
}

struct Function {
    definition: Definition,
    signature: Signature,
    source: Source,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.definition.name)
    }
}

/// Functions are compared by name: a session has one function of each name.
impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        Ok(match self.definition.returns {
            Returns::Bool => DataType::Boolean,
            Returns::Int4 => DataType::Int32,
            Returns::Int8 | Returns::Oid | Returns::Xid => DataType::Int64,
            Returns::Text => DataType::Utf8,
            Returns::Texts => list(DataType::Utf8),
            Returns::Ints => list(DataType::Int64),
            Returns::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Returns::Pairs => list(DataType::Struct(
                vec![
                    Field::new("x", DataType::Int64, true),
                    Field::new("n", DataType::Int64, true),
                ]
                .into(),
            )),
            Returns::Grants => list(DataType::Struct(
                vec![
                    Field::new("grantor", DataType::Int64, true),
                    Field::new("grantee", DataType::Int64, true),
                    Field::new("privilege_type", DataType::Utf8, true),
                    Field::new("is_grantable", DataType::Boolean, true),
                ]
                .into(),
            )),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let told = match self.definition.returns {
            Returns::Oid => "26",
            Returns::Xid => "28",
            _ => return Ok(Arc::new(field)),
        };
        let told = HashMap::from([(TYPE_KEY.to_owned(), told.to_owned())]);
        Ok(Arc::new(field.with_metadata(told)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_once = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_once { 1 } else { args.number_rows };
        let types = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let path = args.config_options.catalog.default_schema.as_str();
        let call = Call { source: &self.source, path, objects: OnceCell::new(), types };
        let columns = args.args.iter().map(|arg| arg.to_array(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut values = Vec::with_capacity(rows);
        for row in 0..rows {
            let arguments = columns.iter().map(|array| ScalarValue::try_from_array(array, row));
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            let is_null = self.definition.is_strict && arguments.iter().any(ScalarValue::is_null);
            values.push(match is_null {
                true => Value::Null,
                false => (self.definition.body)(&call, &arguments)?,
            });
        }
        let values: Vec<&Value> = values.iter().collect();
        let array = value::array(&values, args.return_field.data_type())?;
        match is_once {
            false => Ok(ColumnarValue::Array(array)),
            true if array.len() == 1 => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            true => internal_err!("{} has no value", self.name()),
        }
    }
}
