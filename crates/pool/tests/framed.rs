//! The suite over frames.

mod suite;

const PLACEMENT: terrace_pool::Placement = terrace_pool::Placement::Framed;
