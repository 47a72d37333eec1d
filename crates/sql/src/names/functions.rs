//! `current_schema()` and `current_schemas(implicit)`: the existing schemas of the search path.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::path::SearchPath;
use super::shared::Shared;

/// The implicit schema before those of the path, in the list of `current_schemas(true)`.
const PG_CATALOG: &str = "pg_catalog";

/// The functions of a session.
pub(super) fn all(shared: &Arc<Shared>) -> [ScalarUDF; 2] {
    let of = |is_list, signature| {
        ScalarUDF::from(CurrentSchemas { is_list, signature, shared: Arc::clone(shared) })
    };
    [
        of(false, Signature::nullary(Volatility::Stable)),
        of(true, Signature::exact(vec![DataType::Boolean], Volatility::Stable)),
    ]
}

struct CurrentSchemas {
    /// True for the list, false for its first schema.
    is_list: bool,
    signature: Signature,
    shared: Arc<Shared>,
}

impl fmt::Debug for CurrentSchemas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for CurrentSchemas {
    fn eq(&self, other: &Self) -> bool {
        self.is_list == other.is_list && Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for CurrentSchemas {}

impl Hash for CurrentSchemas {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_list.hash(state);
    }
}

impl ScalarUDFImpl for CurrentSchemas {
    fn name(&self) -> &str {
        if self.is_list { "current_schemas" } else { "current_schema" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(match self.is_list {
            true => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            false => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let path = SearchPath::of(&args.config_options);
        let snapshot = self.shared.now();
        let mut schemas = path.existing(&snapshot);
        if !self.is_list {
            let first = schemas.next().map(str::to_owned);
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(first)));
        }
        let schemas: Vec<&str> = schemas.collect();
        let [ColumnarValue::Scalar(ScalarValue::Boolean(implicit))] = args.args.as_slice() else {
            return exec_err!("current_schemas takes a constant: true or false");
        };
        let mut list = ListBuilder::new(StringBuilder::new());
        if let Some(implicit) = implicit {
            let first = (*implicit && !schemas.contains(&PG_CATALOG)).then_some(PG_CATALOG);
            first.into_iter().chain(schemas).for_each(|name| list.values().append_value(name));
        }
        list.append(implicit.is_some());
        Ok(ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.finish()))))
    }
}
