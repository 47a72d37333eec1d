//! The SQL/JSON path language: `$.a[*] ? (@.b > 1).size()`, with the results of PostgreSQL 15.
//!
//! A path is parsed once for consecutive rows. Numbers of up to 38 digits are computed exactly;
//! numbers of any length are compared. Items of dates and times are missing.

mod evaluation;
mod fault;
mod functions;
mod item;
mod method;
mod number;
mod object_ids;
mod parser;
mod syntax;
#[cfg(test)]
mod tests;
mod token;

pub(super) use functions::functions;
