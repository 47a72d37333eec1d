//! Compiled description of a join: its keys, row layouts, and the sources of its output columns.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};

use super::integer::is_integer;
use crate::floats::all_canonical;
use crate::rows::{Equality, RowLayout};

/// Hash function of the keys; its seed differs from that of repartitioning, whose partitions would
/// otherwise share bits.
pub(super) const HASHES: RandomState = RandomState::with_seed(0x7465_7272_6163_6501);

/// Offsets in a row's extra bytes: of the hash of its key, and of the row's number.
pub(super) const HASH: usize = 0;
pub(super) const NUMBER: usize = 8;
/// Number of extra bytes of a build row, and of a probe row.
const BUILD_EXTRA_BYTES: usize = 16;
const PROBE_EXTRA_BYTES: usize = 8;

/// Source of a column of the output or of the join filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A column of the build rows.
    Build(usize),
    /// A column of the probe batch.
    Probe(usize),
    /// A key of the probe rows, which is identical to that of their build rows.
    Key(usize),
    /// The mark: true if there is a match.
    Mark,
}

/// Compiled description of a join, without its state.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) join_type: JoinType,
    pub(super) filter: Option<JoinFilter>,
    /// Sources of the filter's columns, for pairs with equal keys.
    pub(super) filter_sources: Vec<Source>,
    pub(super) build_keys: Vec<PhysicalExprRef>,
    pub(super) probe_keys: Vec<PhysicalExprRef>,
    /// Columns of the build side kept in addition to its keys.
    payload: Vec<usize>,
    pub(super) build_layout: RowLayout,
    pub(super) probe_layout: RowLayout,
    pub(super) probe_schema: SchemaRef,
    pub(super) outputs: Vec<Source>,
    /// Sources of the output columns, for pairs with equal keys.
    pub(super) pair_outputs: Vec<Source>,
    pub(super) schema: SchemaRef,
    pub(super) nulls_equal: bool,
    /// True for `NOT IN`: a null of the probe side counts as a match of every build row, and if
    /// there is any probe row, a build row with a null key is not known to have no match.
    pub(super) null_aware: bool,
    /// True if the key is one integer on both sides.
    pub(super) is_integer: bool,
    pub(super) batch_size: usize,
    pub(super) fetch: Option<usize>,
}

/// The keys of a batch.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) arrays: Vec<ArrayRef>,
    pub(super) hashes: Vec<u64>,
    /// Rows whose key can match: those without nulls, unless nulls are equal; all if `None`.
    pub(super) valid: Option<NullBuffer>,
}

impl Spec {
    pub(super) fn new(join: &HashJoinExec, batch_size: usize) -> Result<Self> {
        let (left, right) = (join.left().schema(), join.right().schema());
        let (build_keys, probe_keys): (Vec<_>, Vec<_>) = join.on().iter().cloned().unzip();
        let (_, indices) = build_join_schema(&left, &right, join.join_type());
        let indices: Vec<ColumnIndex> = match &join.projection {
            Some(projection) => projection.iter().map(|index| indices[*index].clone()).collect(),
            None => indices,
        };
        let filter = join.filter().cloned();
        let filter_indices = filter.iter().flat_map(|filter| filter.column_indices());
        let mut places = Places::new(&build_keys);
        let outputs: Vec<Source> = indices.iter().map(|index| places.source(index)).collect();
        let filter_sources: Vec<Source> =
            filter_indices.map(|index| places.source(index)).collect();
        let mut types = Vec::new();
        for key in &build_keys {
            types.push(key.data_type(&left)?);
        }
        let same = |key: usize| probe_keys[key].data_type(&right).is_ok_and(|it| it == types[key]);
        let is_integer = types.len() == 1 && is_integer(&types[0]) && same(0);
        // Equal keys are identical, except for zeros and NaNs of floating-point numbers. The output
        // takes them from the probe rows, where they are at hand.
        let is_same: Vec<bool> =
            (0..types.len()).map(|key| same(key) && is_one_of_a_kind(&types[key])).collect();
        let at_hand = |source: &Source| match *source {
            Source::Build(column) if is_same.get(column) == Some(&true) => Source::Key(column),
            source => source,
        };
        let pair_outputs = outputs.iter().map(at_hand).collect();
        let filter_sources = filter_sources.iter().map(at_hand).collect();
        let payload = places.payload;
        types.extend(payload.iter().map(|index| left.field(*index).data_type().clone()));
        let probe_types: Vec<_> = right.fields().iter().map(|it| it.data_type().clone()).collect();
        Ok(Self {
            join_type: *join.join_type(),
            filter,
            filter_sources,
            build_keys,
            probe_keys,
            payload,
            build_layout: RowLayout::new(&types, BUILD_EXTRA_BYTES)?,
            probe_layout: RowLayout::new(&probe_types, PROBE_EXTRA_BYTES)?,
            probe_schema: right,
            outputs,
            pair_outputs,
            schema: join.schema(),
            nulls_equal: join.null_equality() == NullEquality::NullEqualsNull,
            null_aware: join.null_aware,
            is_integer,
            batch_size,
            fetch: join.fetch(),
        })
    }

    /// Returns true if build rows are emitted when all probe rows have been seen.
    pub(super) fn emits_build(&self) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        matches!(self.join_type, Left | LeftSemi | LeftAnti | LeftMark | Full)
    }

    /// Returns true if pairs of rows are emitted.
    pub(super) fn emits_pairs(&self) -> bool {
        use JoinType::{Full, Inner, Left, Right};
        matches!(self.join_type, Inner | Left | Right | Full)
    }

    /// Returns true if probe rows are emitted depending on their having a match.
    pub(super) fn emits_probe(&self) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark, RightSemi};
        matches!(self.join_type, Right | RightSemi | RightAnti | RightMark | Full)
    }

    /// Returns the side whose rows need at most one match, for semi, anti and mark joins.
    pub(super) fn wants_one(&self) -> Option<JoinSide> {
        use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
        match self.join_type {
            LeftSemi | LeftAnti | LeftMark => Some(JoinSide::Left),
            RightSemi | RightAnti | RightMark => Some(JoinSide::Right),
            _ => None,
        }
    }

    pub(super) fn equality(&self) -> Equality {
        Equality { nulls: self.nulls_equal, floats: true }
    }

    pub(super) fn keys(&self, exprs: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Keys> {
        let mut keys = self.unhashed(exprs, batch)?;
        keys.hashes = vec![0; batch.num_rows()];
        create_hashes(&all_canonical(&keys.arrays)?, &HASHES, &mut keys.hashes)?;
        Ok(keys)
    }

    /// As [`Spec::keys`], without the hashes.
    pub(super) fn unhashed(&self, exprs: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Keys> {
        let rows = batch.num_rows();
        let evaluate = |key: &PhysicalExprRef| key.evaluate(batch)?.into_array(rows);
        let arrays = exprs.iter().map(evaluate).collect::<Result<Vec<_>>>()?;
        let valid = if self.nulls_equal {
            None
        } else {
            let nulls: Vec<_> = arrays.iter().map(|key| key.logical_nulls()).collect();
            NullBuffer::union_many(nulls.iter().map(Option::as_ref))
        };
        let hashes = Vec::new();
        Ok(Keys { arrays, hashes, valid: valid.filter(|valid| valid.null_count() > 0) })
    }

    /// Returns the columns of the build rows: the keys, then the payload.
    pub(super) fn build_columns(&self, keys: &Keys, batch: &RecordBatch) -> Vec<ArrayRef> {
        let payload = self.payload.iter().map(|index| Arc::clone(batch.column(*index)));
        keys.arrays.iter().cloned().chain(payload).collect()
    }
}

/// Returns true if equal values of a type are identical: false for floating-point numbers, whose
/// zeros and NaNs differ in bits, and for nested types.
fn is_one_of_a_kind(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_one_of_a_kind(values),
        data_type => !data_type.is_floating() && !data_type.is_nested(),
    }
}

/// Allocator of the columns of build rows: the keys, then the other columns that are needed.
struct Places {
    /// For each key the index of the build side's column, if the key is a plain column.
    keys: Vec<Option<usize>>,
    payload: Vec<usize>,
}

impl Places {
    fn new(keys: &[PhysicalExprRef]) -> Self {
        let column = |key: &PhysicalExprRef| key.downcast_ref::<Column>().map(Column::index);
        Self { keys: keys.iter().map(column).collect(), payload: Vec::new() }
    }

    fn source(&mut self, column: &ColumnIndex) -> Source {
        match column.side {
            JoinSide::Left => Source::Build(self.build(column.index)),
            JoinSide::Right => Source::Probe(column.index),
            JoinSide::None => Source::Mark,
        }
    }

    fn build(&mut self, index: usize) -> usize {
        if let Some(key) = self.keys.iter().position(|key| *key == Some(index)) {
            return key;
        }
        let payload = self.payload.iter().position(|column| *column == index);
        let payload = payload.unwrap_or_else(|| {
            self.payload.push(index);
            self.payload.len() - 1
        });
        self.keys.len() + payload
    }
}
