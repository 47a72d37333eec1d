//! The suite over framed pages.

mod suite;

const PLACEMENT: terrace_pool::Placement = terrace_pool::Placement::Framed;
