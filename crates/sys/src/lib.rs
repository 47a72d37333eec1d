//! Thin, typed wrappers of the kernel interfaces Terrace uses. No other crate makes system calls.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`size`] | byte sizes: checked conversion, rounding, parsing, printing |
//! | [`buffer`] | heap buffers aligned for direct I/O |
//! | [`map`] | anonymous reservations that are committed by touching and decommitted by range |
//! | [`pages`] | such memory with one owner, as slices |
//! | [`transfer`] | one positioned transfer of a batch |
//! | [`file`](mod@file) | files and block devices with direct I/O |
//! | [`lock`] | files that one process has alone, and which one |
//! | [`claim`] | exclusive use of ranges of a file |
//! | [`file_system`] | free room, and whether files are in memory |
//! | [`page_cache`] | dropping the cached pages of a file |
//! | [`uring`] | batches of transfers through io_uring |
//! | [`event_loop`] | readiness without io_uring, or by a ring with transfers in it |
//! | [`event_ring`] | transfers and readiness, waited for together by one thread |
//! | [`userfault`] | memory that this process fills page by page |
//! | [`numa`] | the memory nodes of this machine |
//! | [`migrate`] | where pages are, and moving them to another node |
//! | [`policy`] | the node that a thread's new pages come from |
//! | [`histogram`] | latencies, counted in few bytes |
//! | [`process`] | resident memory and processor time of this process |
//! | [`identity`] | this process as told from its forks, and this boot of the machine |
//! | [`mischief`] | what tests do to memory and processes that must survive it |
//! | [`probe`] | what this kernel offers and grants |
//!
//! Every system call is either made with numbers alone or with memory that the wrapper owns or has
//! borrowed for the length of the call; each `unsafe` block says which.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod buffer;
pub mod claim;
pub mod event_loop;
pub mod event_ring;
pub mod file;
pub mod file_system;
pub mod histogram;
pub mod identity;
pub mod lock;
pub mod map;
pub mod migrate;
pub mod mischief;
pub mod numa;
pub mod page_cache;
pub mod pages;
pub mod policy;
pub mod probe;
pub mod process;
pub mod size;
pub mod transfer;
pub mod uring;
pub mod userfault;
