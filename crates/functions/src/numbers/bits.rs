//! Bits of integers and bytes.

use datafusion::arrow::array::{ArrayRef, AsArray as _, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use datafusion::common::{Result, plan_err};

use crate::scalar::{Bytes, Call, Definition, Int, Kind, Overload, Returns};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "bit_count",
        &[
            Overload::new(&[Kind::Bytes], Kind::Integer, of_bytes),
            Overload::returning(&[Kind::Any], Returns::By(integer_only), of_integers),
        ],
    ),
    Definition::new("xor", &[Overload::new(&[Kind::Integer, Kind::Integer], Kind::Integer, xor)]),
];

fn of_bytes(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Int>(|bytes| {
        Ok(Some(bytes.iter().map(|it| i64::from(it.count_ones())).sum()))
    })
}

fn integer_only(types: &[DataType]) -> Result<DataType> {
    match types {
        [of] if of.is_integer() || of.is_null() => Ok(DataType::Int64),
        _ => plan_err!("bit_count takes an integer or bytes; cast the argument"),
    }
}

/// The number of one bits of integers in the width of their type.
fn of_integers(call: &Call) -> Result<ArrayRef> {
    let integers = call.array(0)?;
    let counts: PrimitiveArray<Int64Type> = match integers.data_type() {
        DataType::Int8 => ones::<Int8Type>(integers, |it| it.count_ones()),
        DataType::Int16 => ones::<Int16Type>(integers, |it| it.count_ones()),
        DataType::Int32 => ones::<Int32Type>(integers, |it| it.count_ones()),
        DataType::Int64 => ones::<Int64Type>(integers, |it| it.count_ones()),
        DataType::UInt8 => ones::<UInt8Type>(integers, |it| it.count_ones()),
        DataType::UInt16 => ones::<UInt16Type>(integers, |it| it.count_ones()),
        DataType::UInt32 => ones::<UInt32Type>(integers, |it| it.count_ones()),
        DataType::UInt64 => ones::<UInt64Type>(integers, |it| it.count_ones()),
        _ => PrimitiveArray::new_null(call.rows()),
    };
    Ok(std::sync::Arc::new(counts))
}

fn ones<T: ArrowPrimitiveType>(
    integers: &ArrayRef,
    count: fn(T::Native) -> u32,
) -> PrimitiveArray<Int64Type> {
    integers.as_primitive::<T>().unary(|integer| i64::from(count(integer)))
}

fn xor(call: &Call) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| Ok(Some(left ^ right)))
}
