//! Functions in SQL, and macros.
//!
//! A routine is stored as the text of its definition, and written out where it is called
//! (`expansion`): the call becomes the body with the arguments in place of the parameters
//! (`substitution`), before the statement is planned. So a routine costs what its body costs, and
//! its tables are read with the rights of the caller. Names of the body are looked up in the search
//! path of the caller, as in PostgreSQL. A view stores the text after that, and its statement as
//! written (`calls`), from which the text is made again when a routine is replaced.

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
