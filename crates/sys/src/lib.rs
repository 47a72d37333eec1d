//! Thin, typed wrappers of the kernel interfaces Terrace uses. No other crate makes system calls.
//!
//! | module | contents |
//! |---|---|
//! | [`size`] | byte sizes: checked conversion, rounding, parsing, printing |
//! | [`buffer`] | heap buffers aligned for direct I/O |
//! | [`map`] | anonymous reservations, committed on first touch and decommitted by range |
//! | [`pages`] | such memory with one owner, as slices |
//! | [`transfer`] | one positioned transfer of a batch |
//! | [`file`](mod@file) | files and block devices with direct I/O |
//! | [`lock`] | file locks of one process, and their holders |
//! | [`claim`] | exclusive use of ranges of a file |
//! | [`file_system`] | free space, and detection of file systems in memory |
//! | [`page_cache`] | evicting a file's pages from the page cache |
//! | [`uring`] | batches of transfers through io_uring |
//! | [`event_loop`] | waiting for events by io_uring or, without it, by `ppoll` |
//! | [`event_ring`] | transfers and readiness, waited for together by one thread |
//! | [`userfault`] | memory whose faults this process handles (userfaultfd) |
//! | [`number`] | conversions between counts and floating-point numbers |
//! | [`numa`] | NUMA nodes of this machine |
//! | [`migrate`] | the nodes of pages, and migration between nodes |
//! | [`policy`] | the node of a thread's new pages |
//! | [`time_slice`] | the time slice of a thread |
//! | [`histogram`] | compact histograms of latencies |
//! | [`process`] | resident memory and processor time of this process |
//! | [`identity`] | identity of this process across `fork`, and of the machine's current boot |
//! | [`duration`] | durations as text |
//! | [`fault_injection`] | fault injection into the process of a test |
//! | [`split_mix`] | a sequence of pseudo-random numbers, and a hash of numbers |
//! | [`sync`] | locks without poison |
//! | [`probe`] | features of the kernel that this process may use |
//!
//! Every system call takes either only integers, or memory that the wrapper owns or has borrowed
//! for the duration of the call; each `unsafe` block states which.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod buffer;
pub mod claim;
pub mod duration;
pub mod event_loop;
pub mod event_ring;
pub mod fault_injection;
pub mod file;
pub mod file_system;
pub mod histogram;
pub mod identity;
pub mod lock;
pub mod map;
pub mod migrate;
pub mod numa;
pub mod number;
pub mod page_cache;
pub mod pages;
pub mod policy;
pub mod probe;
pub mod process;
mod range_lock;
pub mod size;
pub mod split_mix;
pub mod sync;
pub mod time_slice;
pub mod transfer;
pub mod uring;
pub mod userfault;
