//! Query operators whose state lives in pages of the pool.
//!
//! DataFusion's operators keep what they collect on the heap and fail, or write files, when their
//! memory is refused. The operators here keep it in *row pages* ([`rows`]): what they work on is
//! pinned and counted, and what they cannot hold they unpin, whereupon the pool keeps the pages in
//! memory as long as that pays and moves them to slower tiers when it does not (Kuiper, Boncz,
//! Muehleisen: Robust External Hash Aggregation in the Solid State Age, ICDE 2024; Otaki et al.,
//! CIDR 2025). [`PagedOperators`] puts them into a plan; [`QueryExtension`] tells them where their
//! memory is.
//!
//! | module | concept |
//! |---|---|
//! | [`aggregate`] | aggregation by groups |
//! | [`arithmetic`] | integers and decimals that fail on overflow |
//! | [`block`] | batches in pages, in the layout of Arrow |
//! | `bounded` | inputs in batches that memory can hold |
//! | `decimal` | arithmetic of decimals in 64 bits |
//! | `floats` | floating-point numbers as SQL compares them |
//! | [`functions`] | aggregate functions in place of DataFusion's |
//! | [`hash_join`] | joins by hash |
//! | [`loop_join`] | joins by comparing every pair, cross joins |
//! | [`memory`] | what an operator may hold, and whom it asks |
//! | [`merge`] | merging sorted partitions |
//! | [`ordered_lists`] | `array_agg` and `string_agg` with ORDER BY in one stage |
//! | [`panics`] | panics of operators as errors of their query |
//! | [`recursion`] | recursive queries, whose working table may be in pages |
//! | [`repartition`] | handing rows to other partitions |
//! | [`rows`] | rows in pages: append, gather, compare |
//! | `rule` | the physical optimizer rule that puts paged operators into a plan |
//! | `shared_side` | a side of a join that the streams of all partitions share |
//! | [`sort`] | sorting, and the first rows of an order |
//! | `stock` | what an operator leaves to the node that it stands in for |
//! | [`stream`] | streams written as straight code |
//! | [`window`] | window functions over partitions larger than memory |
//! | `words` | large tables of words |

pub mod aggregate;
pub mod any_order;
pub mod arithmetic;
mod aside;
pub mod block;
mod bounded;
mod decimal;
mod error;
pub mod floats;
pub mod functions;
pub mod hash_join;
pub mod loop_join;
pub mod memory;
pub mod merge;
mod options;
pub mod ordered_lists;
pub mod panics;
pub mod recursion;
pub mod repartition;
pub mod rows;
mod rule;
mod shared_side;
pub mod sort;
mod stock;
pub mod stream;
pub mod window;
mod words;

pub use aggregate::{AggregateOptions, PagedAggregateExec};
pub use any_order::{AnyOrder, AnyOrderExec};
pub use aside::{aside, pin_needed};
pub use error::{ExecError, Result};
pub use hash_join::PagedHashJoinExec;
pub use loop_join::PagedLoopJoinExec;
pub use memory::{FixedMemory, Grant, QueryExtension, QueryMemory};
pub use options::{PagedOptions, options_of};
pub use ordered_lists::OrderedLists;
pub use recursion::PagedRecursionExec;
pub use repartition::PagedRepartitionExec;
pub use rule::PagedOperators;
