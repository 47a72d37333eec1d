//! Hash aggregation in pages.
//!
//! A group is a row of row pages: its keys, its hash, and the states of its aggregates, which are
//! compared and updated where they are. A directory of eight bytes per slot finds groups by hash.
//! When memory is refused the directory is forgotten and the pages are unpinned, by then split into
//! partitions by bits of the hash; aggregation goes on with an empty directory, so that a group may
//! come to have several rows, and at the end the rows of each partition are combined (Kuiper,
//! Boncz, Muehleisen: Robust External Hash Aggregation in the Solid State Age, ICDE 2024). A
//! partition that does not fit is split again.
//!
//! | module | concept |
//! |---|---|
//! | [`node`] | the node in the plan, and which nodes it can replace |
//! | `program` | what is computed: keys, arguments, aggregates |
//! | `cell` | states of fixed size, in the row of their group |
//! | `directory` | from hashes to rows |
//! | `early` | when states are handed on before the input ends |
//! | `table` | groups: find or make, take in, let go |
//! | `spilled` | rows that were let go, by partition |
//! | `values` | states that grow with their group |
//! | `giant` | one group larger than memory |
//! | `run` | one partition of the plan, from input to output |

mod cell;
mod directory;
mod early;
mod giant;
pub mod node;
mod program;
mod run;
mod spilled;
mod table;
mod values;

pub use node::{AggregateOptions, PagedAggregateExec};
pub(crate) use values::is_ordered_list;
