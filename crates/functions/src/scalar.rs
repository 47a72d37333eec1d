//! Framework of the scalar functions: definitions with overloads, and loops over columns.
//!
//! A [`Definition`] lists the overloads of a name. An [`Overload`] has the kinds of its arguments,
//! to which values are cast before the call, and an evaluation, which maps a [`Call`] to an array
//! by one of its loops, such as [`Call::map2`]. A row with a null among its arguments is null.

mod call;
mod column;
mod definition;
mod kind;
mod lists;

pub(crate) use call::Call;
pub(crate) use column::{
    Bool, Bytes, Date, Decimal, Double, Input, Int, Int32, Interval, Text, TextList, Time,
    Timestamp, UInt,
};
pub(crate) use definition::{Definition, Overload, functions};
pub(crate) use kind::{Kind, Returns};
