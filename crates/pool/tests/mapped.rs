//! The suite over mapped pages.

mod suite;

const PLACEMENT: terrace_pool::Placement = terrace_pool::Placement::Mapped;
