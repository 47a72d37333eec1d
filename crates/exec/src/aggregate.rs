//! Hash aggregation in pages.
//!
//! A group is a row of row pages: its keys, its hash, and the states of its aggregates, which are
//! compared and updated in place. A directory of eight bytes per slot finds groups by hash. When
//! the grant refuses memory, the table spills: it splits its rows into partitions by bits of the
//! hash, unpins their pages and clears the directory. Aggregation continues with an empty
//! directory, so several rows may belong to the same group; after the input ends, the rows of each
//! partition are combined (Kuiper, Boncz, Muehleisen: Robust External Hash Aggregation in the Solid
//! State Age, ICDE 2024). A partition that does not fit memory is split again.
//!
//! | module | concept |
//! |---|---|
//! | [`node`] | the plan node, and the nodes that it can replace |
//! | `options` | the options of the node |
//! | `program` | the computation: keys, arguments, aggregates |
//! | `cell` | states of fixed size, in the row of their group |
//! | `directory` | hash directory: from hashes to rows |
//! | `early_flush` | early flush and pass-through of partial aggregations |
//! | `table` | the groups: find or create, update, spill |
//! | `spill` | spilled rows, by partition |
//! | `values` | states that grow with their group |
//! | `oversized_group` | one group larger than memory |
//! | `run` | execution of one partition of the plan |

mod cell;
mod directory;
mod early_flush;
pub mod node;
mod options;
mod oversized_group;
mod program;
mod run;
mod spill;
mod table;
mod values;

pub use node::PagedAggregateExec;
pub use options::AggregateOptions;
pub use values::KEEPS_VALUES;
pub(crate) use values::is_ordered_list;
