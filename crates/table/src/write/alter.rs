//! ALTER TABLE: the chunks of a new table from those of the previous one.
//!
//! A column that stays the same shares its segments with the previous table. A column that is new
//! and has the same short value in all rows, such as a default that is a constant, or null, gets
//! that value in each chunk: nothing is read or written but the catalog. Any other column that is
//! new, or gets another type, is computed chunk by chunk from the columns of the previous table, in
//! the same blocks, so that no other column is read or written. A chunk whose new segments would
//! exceed the limits of a chunk is written anew as several.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::cast_with_options;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNode as _;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use terrace_exec::floats::canonical_nans;

use super::Changes;
use super::block::{Columns, STRICT};
use super::chunk_writer::ChunkWriter;
use super::columns::with_columns;
use super::encode::write_segments;
use super::read::next_batch;
use super::texts;
use crate::chunk::{Chunk, ColumnSegment, SEGMENT_BYTES, SegmentBody, SegmentParts};
use crate::error::SqlError;
use crate::scan::ChunkReader;
use crate::segment::{BlockPlan, Constant, SegmentError, SegmentPlan};
use crate::sketch::Sketch;
use crate::statistics::{Collector, SegmentStatistics};
use crate::table::{Table, TableVersion};

/// Source of a column of an altered table.
#[derive(Clone, Debug)]
pub enum ColumnSource {
    /// The column of this index of the previous table.
    Kept(usize),
    /// An expression over the columns of the previous table.
    Computed(Arc<dyn PhysicalExpr>),
}

impl ColumnSource {
    /// Returns the index of the column that is kept.
    #[must_use]
    pub fn kept(&self) -> Option<usize> {
        match self {
            Self::Kept(index) => Some(*index),
            Self::Computed(_) => None,
        }
    }
}

/// Builder of the chunks of an altered table.
struct Altered<'a> {
    before: &'a Arc<Table>,
    after: &'a Arc<Table>,
    sources: &'a [ColumnSource],
    /// Values of computed columns that are the same in all rows, by index in the new table.
    constants: BTreeMap<usize, Constant>,
    /// Indices of the other computed columns, and their expressions over the columns that `reader`
    /// reads.
    computed: Vec<(usize, Arc<dyn PhysicalExpr>)>,
    reader: Arc<ChunkReader>,
    memory: MemoryReservation,
    pool: &'a Arc<dyn MemoryPool>,
    sketches: Vec<Sketch>,
    chunks: Vec<Arc<Chunk>>,
}

impl Table {
    /// Builds the chunks of `after`, a successor of this table, from those of `version`: one source
    /// per column. `sketches` are those of this table's columns. `memory` accounts for the values
    /// in flight.
    ///
    /// # Errors
    /// [`SqlError::NotNull`] for a null in a column that allows none,
    /// [`SqlError::ValueTooLarge`]; errors of the expressions, the pool and the store.
    pub async fn alter(
        self: &Arc<Self>,
        version: &TableVersion,
        after: &Arc<Self>,
        sources: &[ColumnSource],
        sketches: &[Sketch],
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Changes, SqlError> {
        after
            .placement_requests()
            .inherit(self.placement_requests(), sources.iter().map(ColumnSource::kept));
        let kept = sources.iter().map(|source| {
            let sketch = source.kept().and_then(|index| sketches.get(index));
            sketch.cloned().unwrap_or_default()
        });
        let mut altered = Altered::new(self, after, sources, kept.collect(), memory)?;
        if !version.chunks.is_empty() {
            altered.find_constants()?;
        }
        for chunk in &version.chunks {
            altered.refuse_nulls(chunk)?;
            altered.add(chunk).await?;
        }
        Ok(Changes::adding(altered.chunks, altered.sketches))
    }
}

impl<'a> Altered<'a> {
    fn new(
        before: &'a Arc<Table>,
        after: &'a Arc<Table>,
        sources: &'a [ColumnSource],
        sketches: Vec<Sketch>,
        pool: &'a Arc<dyn MemoryPool>,
    ) -> Result<Self, SqlError> {
        let computed = sources.iter().enumerate().filter_map(|(index, source)| match source {
            ColumnSource::Kept(_) => None,
            ColumnSource::Computed(value) => Some((index, Arc::clone(value))),
        });
        let computed: Vec<_> = computed.collect();
        let read = computed.iter().flat_map(|(_, value)| collect_columns(value));
        let mut read: Vec<usize> = read.map(|column| column.index()).collect();
        read.sort_unstable();
        read.dedup();
        if read.is_empty() {
            // Any column tells the number of rows of a block.
            read.push(0);
        }
        let reader = before.reader(read)?;
        let over_read = |(index, value)| -> Result<_, SqlError> {
            Ok((index, reassign_expr_columns(value, reader.schema())?))
        };
        let computed = computed.into_iter().map(over_read).collect::<Result<_, _>>()?;
        let name = format!("TableWriter[{}]", after.full_name());
        let memory = MemoryConsumer::new(name).register(pool);
        let (constants, chunks) = (BTreeMap::new(), vec![]);
        Ok(Self {
            before,
            after,
            sources,
            constants,
            computed,
            reader,
            memory,
            pool,
            sketches,
            chunks,
        })
    }

    /// Computes the columns that have the same value in all rows, and moves those whose value is
    /// short from `computed` to `constants`.
    fn find_constants(&mut self) -> Result<(), SqlError> {
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        for (index, value) in std::mem::take(&mut self.computed) {
            let constant = match is_constant(&value) {
                true => self.constant_of(index, &self.value(index, &value, &row)?)?,
                false => None,
            };
            match constant {
                Some(constant) => {
                    let mut collector = Collector::default();
                    collector.add(constant.value())?;
                    self.sketches[index].merge(&collector.finish().1);
                    self.constants.insert(index, constant);
                }
                None => self.computed.push((index, value)),
            }
        }
        Ok(())
    }

    fn constant_of(&self, index: usize, value: &ArrayRef) -> Result<Option<Constant>, SqlError> {
        Constant::of(value).map_err(|source| self.malformed(index, source))
    }

    fn malformed(&self, index: usize, source: SegmentError) -> SqlError {
        let column = self.after.schema().field(index).name().clone();
        SqlError::Segment { table: self.after.full_name(), column, source }
    }

    /// Returns the column of a chunk of `rows` rows that has a constant value.
    fn constant_segment(
        &self,
        constant: &Constant,
        rows: usize,
    ) -> Result<Arc<ColumnSegment>, SqlError> {
        let mut collector = Collector::default();
        collector.add(constant.value())?;
        let (of_one, _) = collector.finish();
        let nulls = if of_one.nulls > 0 { rows } else { 0 };
        let statistics = SegmentStatistics { rows, nulls, ..of_one };
        let parts = SegmentParts { body: SegmentBody::Constant(constant.clone()), statistics };
        Ok(ColumnSegment::fresh(parts, self.after.space().clone()))
    }

    /// Refuses a chunk with nulls in a kept column that is NOT NULL from now on.
    fn refuse_nulls(&self, chunk: &Chunk) -> Result<(), SqlError> {
        for (source, field) in self.sources.iter().zip(self.after.schema().fields()) {
            let nulls = source.kept().map_or(0, |index| chunk.columns[index].statistics.nulls);
            if nulls > 0 && !field.is_nullable() {
                return Err(self.not_null(field.name()));
            }
        }
        Ok(())
    }

    fn not_null(&self, column: &str) -> SqlError {
        SqlError::NotNull { table: self.after.full_name(), column: column.to_owned() }
    }

    /// Adds the rows of a chunk.
    async fn add(&mut self, chunk: &Arc<Chunk>) -> Result<(), SqlError> {
        if self.computed.is_empty() {
            return self.share(chunk, vec![]);
        }
        let blocks = self.compute(chunk).await?;
        let plans = self.plans(&blocks)?;
        let too_large = plans.iter().any(|plans| {
            let bytes = plans.iter().map(BlockPlan::bytes).sum();
            SegmentPlan::bytes_around(bytes) > SEGMENT_BYTES
        });
        let added = match too_large {
            true => {
                self.write_anew(chunk, blocks).await?;
                None
            }
            false => Some(self.write(blocks, plans).await?),
        };
        self.memory.free();
        match added {
            Some(added) => self.share(chunk, added),
            None => Ok(()),
        }
    }

    /// Computes the columns of the blocks of a chunk.
    async fn compute(&mut self, chunk: &Arc<Chunk>) -> Result<Vec<Columns>, SqlError> {
        let mut computed = Vec::new();
        let mut blocks = self.reader.open(chunk).await?;
        while let Some(block) = next_batch(&mut blocks, self.reader.schema()).await? {
            let columns = self.computed.iter();
            let columns = columns.map(|(index, value)| self.value(*index, value, &block));
            let columns = columns.collect::<Result<Columns, _>>()?;
            // Taken as debt rather than refused: they are the rows of one chunk.
            self.memory.grow(columns.iter().map(|it| it.get_array_memory_size()).sum());
            computed.push(columns);
        }
        Ok(computed)
    }

    fn value(
        &self,
        index: usize,
        value: &Arc<dyn PhysicalExpr>,
        block: &RecordBatch,
    ) -> Result<ArrayRef, SqlError> {
        let field = self.after.schema().field(index);
        let values = value.evaluate(block)?.into_array(block.num_rows())?;
        let values = cast_with_options(&values, field.data_type(), &STRICT)?;
        let values = texts::stored(&values, field)?;
        if !field.is_nullable() && values.logical_null_count() > 0 {
            return Err(self.not_null(field.name()));
        }
        Ok(canonical_nans(&values)?)
    }

    /// Plans the blocks of each computed column.
    fn plans(&self, blocks: &[Columns]) -> Result<Vec<Vec<BlockPlan>>, SqlError> {
        let columns = self.computed.iter().enumerate().map(|(place, (index, _))| {
            let plans = blocks.iter().map(|block| BlockPlan::of(&block[place]));
            let plans = plans.collect::<Result<Vec<_>, _>>();
            plans.map_err(|source| self.malformed(*index, source))
        });
        columns.collect()
    }

    /// Writes the computed columns of a chunk.
    async fn write(
        &mut self,
        blocks: Vec<Columns>,
        plans: Vec<Vec<BlockPlan>>,
    ) -> Result<Vec<Arc<ColumnSegment>>, SqlError> {
        let fields: Vec<usize> = self.computed.iter().map(|(index, _)| *index).collect();
        let (table, places) = (Arc::clone(self.after), fields.clone());
        let written = self.after.journal().tasks.spawn(move || {
            // The memory of the blocks is charged to the caller, which waits for this.
            write_segments(&table, &places, &blocks, plans)
        });
        let (segments, sketches): (Vec<_>, Vec<_>) = written.await??.into_iter().unzip();
        for (index, sketch) in fields.into_iter().zip(sketches) {
            self.sketches[index].merge(&sketch);
        }
        Ok(segments)
    }

    /// Adds a chunk that shares the kept segments of `chunk` and has the `computed` ones.
    fn share(&mut self, chunk: &Chunk, computed: Vec<Arc<ColumnSegment>>) -> Result<(), SqlError> {
        let mut computed = computed.into_iter();
        let mut segments = Vec::with_capacity(self.sources.len());
        for (index, source) in self.sources.iter().enumerate() {
            match (source, self.constants.get(&index)) {
                (ColumnSource::Kept(index), _) => segments.push(Arc::clone(&chunk.columns[*index])),
                (_, Some(constant)) => segments.push(self.constant_segment(constant, chunk.rows)?),
                (_, None) => segments.extend(computed.next()),
            }
        }
        let (key, space) = (chunk.key(), self.after.space().clone());
        self.chunks.push(Arc::new(Chunk::fresh(key, segments, space)));
        Ok(())
    }

    /// Writes all columns of a chunk whose computed columns take several chunks.
    async fn write_anew(
        &mut self,
        chunk: &Arc<Chunk>,
        computed: Vec<Columns>,
    ) -> Result<(), SqlError> {
        let kept: Vec<usize> = self.sources.iter().filter_map(ColumnSource::kept).collect();
        let mut blocks = match kept.is_empty() {
            true => None,
            false => {
                let reader = self.before.reader(kept)?;
                Some((reader.open(chunk).await?, reader))
            }
        };
        let writer = ChunkWriter::new(Arc::clone(self.after), self.pool);
        let mut writer = writer.at(chunk.place).unchecked();
        for computed in computed {
            let kept = match &mut blocks {
                None => vec![],
                Some((blocks, _)) => blocks.next().await?.unwrap_or_default(),
            };
            let rows = computed.first().map_or(0, |column| column.len());
            let (mut kept, mut computed) = (kept.into_iter(), computed.into_iter());
            let mut columns = Columns::with_capacity(self.sources.len());
            for (index, source) in self.sources.iter().enumerate() {
                match (source, self.constants.get(&index)) {
                    (ColumnSource::Kept(_), _) => columns.extend(kept.next()),
                    (_, Some(constant)) => {
                        let values = constant.rows(rows);
                        columns.push(values.map_err(|source| self.malformed(index, source))?);
                    }
                    (_, None) => columns.extend(computed.next()),
                }
            }
            writer.push(with_columns(rows, columns, self.after.schema())?).await?;
        }
        let changes = writer.finish().await?;
        for (sketch, more) in self.sketches.iter_mut().zip(changes.sketches()) {
            sketch.merge(more);
        }
        self.chunks.extend(changes.added().map(Arc::clone));
        Ok(())
    }
}

/// Returns true for an expression that has the same value in all rows.
fn is_constant(value: &Arc<dyn PhysicalExpr>) -> bool {
    let varies = |part: &Arc<dyn PhysicalExpr>| Ok(part.is_volatile_node());
    collect_columns(value).is_empty() && !value.exists(varies).unwrap_or(true)
}
