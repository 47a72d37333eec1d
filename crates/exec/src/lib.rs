//! Query operators whose state lives in pages of the pool.
//!
//! DataFusion's operators keep their state on the heap, and fail or write files when their memory
//! is refused. The operators here keep it in *row pages* ([`rows`]): pages in use are pinned and
//! counted; pages that do not fit the grant are unpinned, whereupon the pool keeps them in memory
//! as long as that pays and moves them to slower tiers when it does not (Kuiper, Boncz, Muehleisen:
//! Robust External Hash Aggregation in the Solid State Age, ICDE 2024; Otaki et al., CIDR 2025).
//! [`PagedOperators`] puts the operators into a plan; they find their query's memory in its
//! [`QueryExtension`].
//!
//! | module | concept |
//! |---|---|
//! | [`aggregate`] | hash aggregation |
//! | [`any_order`] | hides orders that DataFusion derives wrongly |
//! | [`arithmetic`] | integer and decimal arithmetic that fails on overflow |
//! | `batch_limit` | inputs cut into batches that memory can hold |
//! | [`block`] | batches in pages, in the layout of Arrow |
//! | `decimal` | arithmetic of decimals in 64 bits |
//! | `delegate` | methods that an operator delegates to the DataFusion node that it replaces |
//! | `floats` | floating-point comparison by SQL's rules |
//! | [`functions`] | aggregate functions in place of DataFusion's |
//! | [`hash_join`] | hash joins |
//! | [`loop_join`] | nested-loop joins and cross joins |
//! | [`memory`] | memory grants of operators |
//! | [`merge`] | merging sorted partitions |
//! | [`once`] | a subplan that a plan has several times and evaluates once |
//! | [`ordered_lists`] | `array_agg` and `string_agg` with ORDER BY in one stage |
//! | [`panics`] | converts panics of operators to errors of their query |
//! | [`recursion`] | recursive queries, whose working table may be in pages |
//! | [`repartition`] | exchange of rows between partitions |
//! | [`rows`] | rows in pages: append, gather, compare |
//! | `rule` | the physical optimizer rule that puts paged operators into a plan |
//! | `shared_side` | a side of a join that the streams of all partitions share |
//! | [`sort`] | sorting and top-k |
//! | [`stream`] | streams implemented as `async` functions |
//! | [`window`] | window functions over partitions larger than memory |
//! | `words` | large tables of 64-bit words |

pub mod aggregate;
pub mod any_order;
pub mod arithmetic;
mod batch_limit;
pub mod block;
mod blocking;
mod decimal;
mod delegate;
mod error;
pub mod floats;
pub mod functions;
pub mod hash_join;
pub mod loop_join;
pub mod memory;
pub mod merge;
pub mod once;
mod options;
pub mod ordered_lists;
pub mod panics;
pub mod recursion;
pub mod repartition;
pub mod rows;
mod rule;
mod shared_side;
pub mod sort;
mod stored_batches;
pub mod stream;
pub mod window;
mod words;

pub use aggregate::{AggregateOptions, PagedAggregateExec};
pub use any_order::{AnyOrder, AnyOrderExec};
pub use blocking::{pin_needed, run_blocking};
pub use error::{ExecError, Result};
pub use hash_join::PagedHashJoinExec;
pub use loop_join::PagedLoopJoinExec;
pub use memory::{FixedMemory, Grant, QueryExtension, QueryMemory};
pub use options::{PagedOptions, options_of};
pub use ordered_lists::OrderedLists;
pub use recursion::PagedRecursionExec;
pub use repartition::PagedRepartitionExec;
pub use rule::PagedOperators;
pub use stored_batches::StoredBatches;
