//! Definition of a function of `pg_catalog`, and its implementation as a DataFusion scalar
//! function.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::Array as _;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use terrace_sql::SearchPath;

use super::super::source::Source;
use super::super::value::{Value, array};
use super::call::Call;
use crate::column_types::TYPE_KEY;

/// Return types of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Returns {
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
pub(super) type Body = fn(&Call<'_>, &[ScalarValue]) -> Result<Value>;

/// The definition of a function.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// Minimum and maximum number of arguments.
    pub(super) arguments: (usize, usize),
    pub(super) returns: Returns,
    /// True if a null argument makes the result null.
    pub(super) is_strict: bool,
    pub(super) volatility: Volatility,
    pub(super) body: Body,
}

/// Defines a stable function that returns null if an argument is null. `arguments` are the minimum
/// and maximum number of arguments.
pub(super) const fn strict(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    let volatility = Volatility::Stable;
    Definition { name, arguments, returns, is_strict: true, volatility, body }
}

/// Defines a stable function that is also called with null arguments.
pub(super) const fn lenient(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    Definition { is_strict: false, ..strict(name, arguments, returns, body) }
}

/// Defines a volatile function: it has a side effect for each row.
pub(super) const fn acting(
    name: &'static str,
    arguments: (usize, usize),
    returns: Returns,
    body: Body,
) -> Definition {
    Definition { volatility: Volatility::Volatile, ..strict(name, arguments, returns, body) }
}

/// A function as DataFusion calls it.
pub(super) struct Function {
    definition: Definition,
    signature: Signature,
    source: Source,
}

impl Function {
    pub(super) fn new(definition: Definition, source: Source) -> Self {
        let (least, most) = definition.arguments;
        let signatures = (least..=most).map(|count| match count {
            0 => TypeSignature::Nullary,
            count => TypeSignature::Any(count),
        });
        let signature = Signature::one_of(signatures.collect(), definition.volatility);
        Self { definition, signature, source }
    }
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
        let path = SearchPath::of(&args.config_options);
        let call = Call::new(&self.source, path, args.arg_fields.clone());
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
        let array = array(&values, args.return_field.data_type())?;
        match is_once {
            false => Ok(ColumnarValue::Array(array)),
            true if array.len() == 1 => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
            true => internal_err!("{} has no value", self.name()),
        }
    }
}
