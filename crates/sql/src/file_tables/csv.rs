//! Files of delimited values as tables: comma-separated values, and those with other delimiters.

mod decode;
mod dialect;
mod escapes;
mod files;
mod lines;
mod numbers;
mod options;
mod plan;
mod reader;
mod sniff;

pub(super) use escapes::encode as encode_escapes;
pub(super) use files::{TableColumn, first_row, plan};
pub(super) use numbers::NumberFormat;
pub(super) use options::{CsvOptions, ROW_BYTES_MAX, SAMPLE_ROWS};
