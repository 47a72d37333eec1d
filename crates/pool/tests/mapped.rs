//! The suite over pages that have one address for life.

mod suite;

const PLACEMENT: terrace_pool::Placement = terrace_pool::Placement::Mapped;
