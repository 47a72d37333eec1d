//! SQL functions and macros.
//!
//! A routine is stored as the text of its definition, and inlined where it is called
//! (`expansion`): the call becomes the body with the arguments in place of the parameters
//! (`substitution`), before the statement is planned. So a call takes the same time as its body,
//! and its tables are read with the rights of the caller. Names of the body are looked up in the
//! search path of the caller, as in PostgreSQL. A view stores the inlined text and its original
//! statement (`calls`), from which the text is made again when a routine is replaced.

mod arguments;
mod body;
pub(super) mod calls;
pub(super) mod expansion;
pub(super) mod lookup;
pub(super) mod report;
pub(super) mod routine;
mod scope;
mod shape;
mod substitution;
pub(super) mod syntax;
pub(super) mod validity;
