//! Dynamic filter of the probe side, derived from the keys of the build side.
//!
//! The join pushes down to the scan of its probe side the least and the greatest key, and a list of
//! all keys when they are few or else a membership filter. It does so through the dynamic filter
//! that DataFusion's planner put into the plan. The filter is complete when every build partition
//! has reported its bounds or has been dropped.

use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, IsNullExpr, lit,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use terrace_sys::sync::lock;
use tokio::sync::watch;

use super::member::{KeyList, MemberExpr, Members};
use super::spec::{Keys, Spec};
use crate::memory::Grant;

/// The least and the greatest keys of one build partition, and the keys themselves while they are
/// few.
#[derive(Debug)]
pub(super) struct KeyBounds {
    /// Least and greatest value of each key column; `None` for a nested type, which has no order
    /// that an expression can compare by.
    columns: Vec<Option<(MinAccumulator, MaxAccumulator)>>,
    /// Columns of floating-point numbers, whose order separates zeros that are equal.
    floating: Vec<bool>,
    /// The arrays of a single key while they have at most `values_max` rows, for an IN list.
    values: Option<Vec<ArrayRef>>,
    values_max: usize,
    /// The keys for the membership filter, while they are not too many.
    keys: Option<KeyList>,
    rows: usize,
    has_nulls: bool,
}

impl KeyBounds {
    pub(super) fn new(
        types: &[DataType],
        values_max: usize,
        grant: &Arc<dyn Grant>,
    ) -> Result<Self> {
        let plain = |data_type: &DataType| match data_type {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            data_type => data_type.clone(),
        };
        let column = |data_type: &DataType| {
            let data_type = plain(data_type);
            if data_type.is_nested() {
                return Ok(None);
            }
            let both = (MinAccumulator::try_new(&data_type)?, MaxAccumulator::try_new(&data_type)?);
            Ok(Some(both))
        };
        let columns = types.iter().map(column).collect::<Result<_>>()?;
        let floating: Vec<bool> = types.iter().map(|it| plain(it).is_floating()).collect();
        let listed = types.len() == 1 && !types[0].is_nested() && !floating[0];
        let values = listed.then(Vec::new);
        let keys = Some(KeyList::new(types, grant));
        Ok(Self { columns, floating, values, values_max, keys, rows: 0, has_nulls: false })
    }

    pub(super) fn update(&mut self, keys: &Keys) -> Result<()> {
        for (bounds, key) in self.columns.iter_mut().zip(&keys.arrays) {
            if let Some((min, max)) = bounds {
                min.update_batch(std::slice::from_ref(key))?;
                max.update_batch(std::slice::from_ref(key))?;
            }
            self.has_nulls |= key.logical_null_count() > 0;
        }
        self.rows += keys.hashes.len();
        if let Some(list) = &mut self.keys
            && !list.add(keys)?
        {
            self.keys = None;
        }
        if self.rows > self.values_max {
            self.values = None;
        } else if let (Some(values), Some(key)) = (&mut self.values, keys.arrays.first()) {
            values.push(Arc::clone(key));
        }
        Ok(())
    }

    /// Drops the keys for the membership filter; returns true if there were any.
    pub(super) fn forget_keys(&mut self) -> bool {
        self.keys.take().is_some()
    }
}

/// The dynamic filter of a join, shared by its build partitions, which report their bounds to it.
#[derive(Debug)]
pub(super) struct SharedFilter {
    filter: Arc<DynamicFilterPhysicalExpr>,
    probe_keys: Vec<PhysicalExprRef>,
    probe_schema: SchemaRef,
    /// True if nulls are equal: probe rows with a null key must pass if the build side has nulls.
    nulls_equal: bool,
    /// True for a null-aware join: probe rows with a null key must pass.
    null_aware: bool,
    told: Mutex<Told>,
    complete: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Told {
    missing: usize,
    /// True if a partition was dropped without reporting.
    unknown: bool,
    ranges: Vec<Option<(ScalarValue, ScalarValue)>>,
    values: Option<Vec<ArrayRef>>,
    keys: Option<Vec<KeyList>>,
    has_nulls: bool,
    rows: usize,
}

impl SharedFilter {
    /// Creates the filter, for reports of `partitions` build partitions; `None` if no operator of
    /// the plan `probe` uses it.
    pub(super) fn new(
        filter: &Arc<DynamicFilterPhysicalExpr>,
        probe: &Arc<dyn ExecutionPlan>,
        spec: &Spec,
        partitions: usize,
    ) -> Result<Option<Self>> {
        if !is_used(filter, probe)? {
            return Ok(None);
        }
        let ranges = vec![None; spec.probe_keys.len()];
        let (values, keys) = (Some(Vec::new()), Some(Vec::new()));
        let told = Told { missing: partitions, ranges, values, keys, ..Default::default() };
        Ok(Some(Self {
            filter: Arc::clone(filter),
            probe_keys: spec.probe_keys.clone(),
            probe_schema: probe.schema(),
            nulls_equal: spec.nulls_equal,
            null_aware: spec.null_aware,
            told: Mutex::new(told),
            complete: watch::Sender::new(false),
        }))
    }

    /// Reports the bounds of one partition, or `None` if it was dropped; the last report publishes
    /// the filter.
    pub(super) fn tell(&self, bounds: Option<KeyBounds>) -> Result<()> {
        let mut told = lock(&self.told);
        match bounds {
            Some(bounds) => told.add(bounds)?,
            None => told.unknown = true,
        }
        told.missing = told.missing.saturating_sub(1);
        if told.missing > 0 {
            return Ok(());
        }
        let published = self.publish(&told);
        (told.values, told.keys) = (None, None);
        drop(told);
        self.filter.mark_complete();
        self.complete.send_replace(true);
        published
    }

    /// Waits until every partition has reported.
    pub(super) async fn complete(&self) {
        // The sender lives as long as `self`.
        drop(self.complete.subscribe().wait_for(|complete| *complete).await);
    }

    fn publish(&self, told: &Told) -> Result<()> {
        if told.unknown {
            return Ok(());
        }
        if told.rows == 0 {
            return self.filter.update(lit(false));
        }
        let mut parts: Vec<PhysicalExprRef> = Vec::new();
        for (key, range) in self.probe_keys.iter().zip(&told.ranges) {
            let Some((min, max)) = range else { continue };
            parts.push(binary(key, Operator::GtEq, lit(min.clone())));
            parts.push(binary(key, Operator::LtEq, lit(max.clone())));
        }
        let values = told.values.as_ref().filter(|values| !values.is_empty());
        if let (Some(values), [key]) = (values, self.probe_keys.as_slice()) {
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            let (key, values) = (Arc::clone(key), concat(&values)?);
            // A list whose type differs from the key's is skipped: the bounds must do.
            let schema = &self.probe_schema;
            if let Ok(list) = InListExpr::try_new_from_array(key, values, false, schema) {
                parts.push(Arc::new(list));
            }
        } else if let Some(lists) = &told.keys
            && let Some(members) = Members::of(lists)?
        {
            parts.push(Arc::new(MemberExpr::new(self.probe_keys.clone(), members)));
        }
        let Some(mut filter) = parts.into_iter().reduce(|all, it| binary(&all, Operator::And, it))
        else {
            return Ok(());
        };
        if self.null_aware || (self.nulls_equal && told.has_nulls) {
            for key in &self.probe_keys {
                let null: PhysicalExprRef = Arc::new(IsNullExpr::new(Arc::clone(key)));
                filter = binary(&null, Operator::Or, filter);
            }
        }
        self.filter.update(filter)
    }
}

impl Told {
    fn add(&mut self, mut bounds: KeyBounds) -> Result<()> {
        self.rows += bounds.rows;
        self.has_nulls |= bounds.has_nulls;
        match (&mut self.values, bounds.values.take()) {
            (Some(all), Some(values)) => all.extend(values),
            (all, _) => *all = None,
        }
        match (&mut self.keys, bounds.keys.take()) {
            (Some(all), Some(keys)) => all.push(keys),
            (all, _) => *all = None,
        }
        let columns = bounds.columns.iter_mut().zip(bounds.floating);
        for (range, (bounds, floating)) in self.ranges.iter_mut().zip(columns) {
            let Some((min, max)) = bounds else { continue };
            let (min, max) = (min.evaluate()?, max.evaluate()?);
            if min.is_null() || max.is_null() || floating {
                continue;
            }
            *range = Some(match range.take() {
                None => (min, max),
                Some((least, greatest)) => (
                    if min < least { min } else { least },
                    if max > greatest { max } else { greatest },
                ),
            });
        }
        Ok(())
    }
}

fn binary(left: &PhysicalExprRef, operator: Operator, right: PhysicalExprRef) -> PhysicalExprRef {
    Arc::new(BinaryExpr::new(Arc::clone(left), operator, right))
}

/// Returns true if an expression of any operator of `plan` contains the filter.
fn is_used(filter: &DynamicFilterPhysicalExpr, plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(id) = filter.expression_id() else { return Ok(false) };
    let mut found = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |root| {
            root.apply(|expr| {
                found |= expr.expression_id() == Some(id);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Returns the number of partitions of a plan's output.
pub(crate) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}
