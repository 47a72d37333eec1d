//! Privileges on schemas, tables and views, and the roles that hold them.
//!
//! Each schema, table and view has an owner and grants ([`Access`]), which are versioned in the
//! catalog like the object itself: a statement sees those of its snapshot. A statement runs with
//! the rights of its session's role (`rights`). A session without a role, such as one opened by an
//! embedding program, is unrestricted, like a superuser.
//!
//! Names are checked when they are resolved (`names`), tables that a plan reads or changes before
//! each run (`plan`). The tables below a view are read with the rights of the view's owner.

mod names;
mod plan;
mod rights;

pub(crate) use names::{Reading, check_names};
pub(crate) use plan::{RETURNING, check_plan};
pub(crate) use rights::Rights;
pub use terrace_table::access::{Access, Grantee, Privilege, Privileges};
