//! The C and C++ interface of heaps, regions and stores of objects.
//!
//! `include/terrace.h` is made from this crate by cbindgen, its comments from the ones here: they
//! speak to who writes C. `include/terrace_pmr.hpp` and `include/terrace_objects.hpp` put C++ on
//! top: a `std::pmr::memory_resource`, and stores of objects. Why it is as it is stands in
//! `docs/design/capi.md`.
//!
//! ```text
//!   C++   terrace::heap_resource, terrace::region, terrace::objects  throw
//!           |
//!   C     terrace_heap_alloc, terrace_objects_get, ...               a status, or NULL
//!           |
//!   this  checks arguments, catches panics, keeps the last failure
//!           |
//!         terrace-heap, terrace-region, terrace-objects, terrace-market
//! ```
//!
//! # Rules that hold everywhere
//!
//! - Every function that can fail does its work in [`status::attempt`]: nothing unwinds into C.
//! - NULL is answered, never read. Numbers that stand for a choice are checked: no C value becomes
//!   a Rust enum unseen.
//! - A handle is a box; what it names is shared by count, so that handles may be closed in any
//!   order.

pub mod access;
pub mod arguments;
pub mod batch;
pub mod heap;
pub mod id;
pub mod ledger;
pub mod lock;
pub mod log;
pub mod object;
pub mod pin;
pub mod recovered;
pub mod region;
pub mod stats;
pub mod status;
pub mod store;
pub mod version;
