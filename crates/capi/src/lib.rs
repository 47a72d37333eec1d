//! The C and C++ interface of heaps, regions and stores of objects.
//!
//! cbindgen generates `include/terrace.h` from this crate, and its comments from the ones here,
//! which address C programmers. `include/terrace_pmr.hpp` and `include/terrace_objects.hpp` add C++
//! on top: a `std::pmr::memory_resource`, and stores of objects. `docs/design/capi.md` gives the
//! reasons for the design.
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
//! - Every function that can fail does its work in `status::attempt`: nothing unwinds into C.
//! - NULL is reported as an error, never dereferenced. Numbers that stand for a choice are checked:
//!   no unchecked C value becomes a Rust enum.
//! - A handle is a box; the object behind it is reference-counted, so handles may be closed in any
//!   order.

pub mod access;
pub mod arguments;
pub mod batch;
mod found;
pub mod heap;
pub mod id;
pub mod ledger;
pub mod lock;
pub mod log;
pub mod object;
pub mod pin;
pub mod recovery;
pub mod region;
pub mod stats;
pub mod status;
pub mod store;
pub mod version;
