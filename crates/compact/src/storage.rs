//! Storage types: the stored form of the values of each Arrow type.

use arrow_schema::{DataType, IntervalUnit};
use vortex_array::dtype::{DType, Nullability, PType};

use crate::CompactError;

/// Storage type of a column's values, as the encodings see them. The codes are part of the format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    I8 = 0,
    I16 = 1,
    I32 = 2,
    I64 = 3,
    U8 = 4,
    U16 = 5,
    U32 = 6,
    U64 = 7,
    F32 = 8,
    F64 = 9,
    Text = 10,
    Bytes = 11,
    /// 128-bit decimals that fit in 32 bits.
    Narrow32 = 12,
    /// 128-bit decimals that fit in 64 bits.
    Narrow64 = 13,
}

const ALL: [Storage; 14] = [
    Storage::I8,
    Storage::I16,
    Storage::I32,
    Storage::I64,
    Storage::U8,
    Storage::U16,
    Storage::U32,
    Storage::U64,
    Storage::F32,
    Storage::F64,
    Storage::Text,
    Storage::Bytes,
    Storage::Narrow32,
    Storage::Narrow64,
];

impl Storage {
    /// Returns the storage type of `data_type`, or `None` if its values are not encoded. 128-bit
    /// decimals get 64 bits here; encoding narrows them to 32 bits if their values permit.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Int8 => Self::I8,
            DataType::Int16 => Self::I16,
            DataType::Int32
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Decimal32(..)
            | DataType::Interval(IntervalUnit::YearMonth) => Self::I32,
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => Self::I64,
            DataType::UInt8 => Self::U8,
            DataType::UInt16 => Self::U16,
            DataType::UInt32 => Self::U32,
            DataType::UInt64 => Self::U64,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::Decimal128(..) => Self::Narrow64,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            _ => return None,
        })
    }

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Returns the storage type of `code` in a column of `data_type`.
    pub(crate) fn from_code(code: u8, data_type: &DataType) -> Result<Self, CompactError> {
        let found = ALL.get(usize::from(code)).copied();
        let own = Self::of(data_type);
        let fits = |storage: &Self| match own {
            Some(Self::Narrow64) => matches!(storage, Self::Narrow32 | Self::Narrow64),
            own => own == Some(*storage),
        };
        let wrong = || CompactError::damaged(format!("storage {code} is none of {data_type}"));
        found.filter(fits).ok_or_else(wrong)
    }

    /// Returns the type of the values in the library of encodings.
    pub(crate) fn dtype(self) -> DType {
        let primitive = |ptype| DType::Primitive(ptype, Nullability::NonNullable);
        match self {
            Self::I8 => primitive(PType::I8),
            Self::I16 => primitive(PType::I16),
            Self::I32 | Self::Narrow32 => primitive(PType::I32),
            Self::I64 | Self::Narrow64 => primitive(PType::I64),
            Self::U8 => primitive(PType::U8),
            Self::U16 => primitive(PType::U16),
            Self::U32 => primitive(PType::U32),
            Self::U64 => primitive(PType::U64),
            Self::F32 => primitive(PType::F32),
            Self::F64 => primitive(PType::F64),
            Self::Text => DType::Utf8(Nullability::NonNullable),
            Self::Bytes => DType::Binary(Nullability::NonNullable),
        }
    }
}
