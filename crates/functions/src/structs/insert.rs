//! DuckDB's `struct_insert(s, 'name', value, ...)` and `struct_update`.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Adds members to a struct, or replaces them.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StructInsert {
    /// True if a member of the same name is replaced rather than refused.
    replaces: bool,
    signature: Signature,
}

impl StructInsert {
    pub(super) fn function(replaces: bool) -> Arc<ScalarUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { replaces, signature }))
    }

    /// The fields of the result, each with the source of its values: the struct or an argument.
    fn members(
        &self,
        given: &DataType,
        names: &[Option<&ScalarValue>],
        values: &[FieldRef],
    ) -> Result<Vec<(Field, Source)>> {
        let DataType::Struct(fields) = given else {
            return plan_err!("{} takes a struct, not {given}", self.name());
        };
        let own = fields.iter().enumerate();
        let own = own.map(|(at, field)| (field.as_ref().clone(), Source::Member(at)));
        let mut members: Vec<_> = own.collect();
        for at in (1..values.len()).step_by(2) {
            let name = names.get(at).copied().flatten().and_then(|name| name.try_as_str());
            let (Some(name), Some(value)) = (name.flatten(), values.get(at + 1)) else {
                return plan_err!("{0} takes named values: {0}(s, a := 1)", self.name());
            };
            let member = Field::new(name, value.data_type().clone(), true);
            let member = (member, Source::Argument(at + 1));
            match members.iter_mut().find(|(own, _)| own.name().eq_ignore_ascii_case(name)) {
                None => members.push(member),
                Some(own) if self.replaces => *own = member,
                Some(_) => {
                    return plan_err!("{}: the struct has a member {name:?}", self.name());
                }
            }
        }
        Ok(members)
    }
}

/// Source of a member of the result.
enum Source {
    Member(usize),
    Argument(usize),
}

impl ScalarUDFImpl for StructInsert {
    fn name(&self) -> &str {
        if self.replaces { "struct_update" } else { "struct_insert" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        exec_err!("the type of {} depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(given) = args.arg_fields.first() else {
            return plan_err!("{} takes a struct", self.name());
        };
        let members = self.members(given.data_type(), args.scalar_arguments, args.arg_fields)?;
        let fields: Fields = members.into_iter().map(|(field, _)| field).collect();
        Ok(Arc::new(Field::new(self.name(), DataType::Struct(fields), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let names: Vec<_> = args.args.iter().map(constant).collect();
        let Some(given) = args.arg_fields.first() else {
            return exec_err!("{} takes a struct", self.name());
        };
        let members = self.members(given.data_type(), &names, &args.arg_fields)?;
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let Some(structs) = arrays.first().and_then(|array| array.as_struct_opt()) else {
            return exec_err!("{} takes a struct", self.name());
        };
        let columns = members.iter().map(|(_, source)| match source {
            Source::Member(at) => ArrayRef::clone(structs.column(*at)),
            Source::Argument(at) => ArrayRef::clone(&arrays[*at]),
        });
        let columns = columns.collect();
        let fields = members.iter().map(|(field, _)| field.clone()).collect();
        let nulls = structs.nulls().cloned();
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(fields, columns, nulls)?)))
    }
}

fn constant(arg: &ColumnarValue) -> Option<&ScalarValue> {
    match arg {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(_) => None,
    }
}
