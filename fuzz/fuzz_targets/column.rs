//! Description and body of a compact column: any bytes decode to rows, or are refused.
#![no_main]

use arrow_schema::DataType;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use terrace_compact::{Column, Rows};

const TYPES: [DataType; 6] = [
    DataType::Int64,
    DataType::Float64,
    DataType::Utf8View,
    DataType::Date32,
    DataType::Boolean,
    DataType::Decimal128(15, 2),
];

fuzz_target!(
    // Panics of the encodings' decoders become errors; libFuzzer would abort on each.
    init: std::panic::set_hook(Box::new(|_| ())),
    |input: (u8, u16, &[u8], &[u8])| {
        let (kind, rows, description, body) = input;
        let data_type = &TYPES[usize::from(kind) % TYPES.len()];
        let (rows, body) = (usize::from(rows), Bytes::copy_from_slice(body));
        if let Ok(column) = Column::open(description, &body, data_type, rows)
            && let Ok(values) = column.read(&Rows::All(0..rows))
            && values.len() != rows
        {
            std::process::abort();
        }
    }
);
