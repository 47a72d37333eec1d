//! Types of columns beyond Arrow's: UUID, JSON, JSONB, VARCHAR(n) and CHAR(n), and the order and
//! the text of intervals.
//!
//! The first five are texts in storage. A field of such a type has one of Arrow's extension types
//! in its metadata, which casts to other types drop. Texts are converted to values of the type when
//! they are stored in a table, cast, or compared with such values ([`Usage`]).

mod conform;
mod interval;
mod interval_extreme;
mod interval_functions;
mod interval_parse;
mod moment_text;
mod readable;
mod text_type;
mod uuid;

pub use conform::{Usage, as_type, conform, is_checked, nested_type, unmarked};
pub use interval_extreme::interval_extreme;
pub(crate) use interval_functions::durations;
pub use interval_functions::{
    interval_key, interval_of_text, intervals_of_texts, jsonb_key, readable_text,
    try_interval_of_text,
};
pub use interval_parse::parse_interval;
pub(crate) use moment_text::timestamp_texts;
pub use moment_text::{has_moment_text, moment_text};
pub(crate) use readable::displayed_values;
pub use readable::{displayed, readable};
pub use text_type::TextType;
