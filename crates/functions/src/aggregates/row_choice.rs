//! Aggregates that choose a row of each group and return its value: `arg_max`, `arg_min` and
//! `any_value`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_null_array};
use datafusion::arrow::compute::{nullif, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{OwnedRow, RowConverter};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::definition::{Definition, Repeats};
use super::factory::{Factory, list_of};
use super::floats::canonical;
use super::greatest::{length_type, of_rows, pair_type};
use super::sorted::sort_field;

/// `arg_max(x, y)`, `arg_min(x, y)`: the value of `x` in the row with the greatest or least `y`;
/// with a third argument, the list of the values of several rows.
///
/// Rows in which `x` or `y` is null are left out (`arg_max_null` and `arg_min_null` keep those in
/// which only `x` is). Of rows with equal `y` the first that is read is chosen, so the result may
/// depend on the order of the rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowChoice {
    pub(super) name: &'static str,
    pub(super) aliases: &'static [&'static str],
    pub(super) descending: bool,
    /// True if rows are kept in which only the value is null.
    pub(super) takes_null_values: bool,
}

impl Definition for RowChoice {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [_, _] => Ok(arguments.to_vec()),
            [value, key, length] => {
                Ok(vec![value.clone(), key.clone(), length_type(self.name, length)?])
            }
            _ => plan_err!(
                "{0} takes a value and a key: {0}(x, y), or {0}(x, y, n) for a list",
                self.name
            ),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        let value = arguments.first().cloned().unwrap_or(DataType::Null);
        if arguments.len() > 2 { list_of(value) } else { value }
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        match arguments {
            [value, key] => vec![("value", value.clone()), ("key", key.clone())],
            [value, key, ..] => vec![("values", list_of(pair_type(value, key)))],
            _ => Vec::new(),
        }
    }

    fn keeps_values(&self, arguments: usize) -> bool {
        arguments > 2
    }

    fn repeats(&self, arguments: usize) -> Repeats {
        if arguments > 2 { Repeats::Refused } else { Repeats::Irrelevant }
    }

    fn depends_on_order(&self) -> bool {
        true
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let (descending, takes_null_values) = (self.descending, self.takes_null_values);
        let [value, key, rest @ ..] = args.expr_fields else {
            return internal_err!("{} without a key", self.name);
        };
        if !rest.is_empty() {
            return of_rows(args, self.name, descending, takes_null_values);
        }
        let (value, key) = (value.data_type().clone(), key.data_type().clone());
        Ok(Arc::new(move || {
            Ok(Box::new(Chosen::new(&value, Some(&key), descending, takes_null_values)?))
        }))
    }
}

/// `any_value(x)`: the first value that is not null.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AnyValue;

impl Definition for AnyValue {
    fn name(&self) -> &'static str {
        "any_value"
    }

    fn coerce(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [value] => Ok(vec![value.clone()]),
            _ => plan_err!("any_value takes one value, not {} arguments", arguments.len()),
        }
    }

    fn result(&self, arguments: &[DataType]) -> DataType {
        arguments.first().cloned().unwrap_or(DataType::Null)
    }

    fn state(&self, arguments: &[DataType]) -> Vec<(&'static str, DataType)> {
        vec![("value", self.result(arguments))]
    }

    fn repeats(&self, _: usize) -> Repeats {
        Repeats::Irrelevant
    }

    fn factory(&self, args: &AccumulatorArgs<'_>) -> Result<Factory> {
        let value = args.expr_fields[0].data_type().clone();
        Ok(Arc::new(move || Ok(Box::new(Chosen::new(&value, None, false, false)?))))
    }
}

/// The chosen row of each group, encoded.
struct Chosen {
    values: RowConverter,
    /// Encoder of the key that rows are chosen by; without a key the first row is chosen.
    keys: Option<RowConverter>,
    descending: bool,
    takes_null_values: bool,
    rows: Vec<Option<Choice>>,
    /// The null value and the null key.
    nulls: [Option<OwnedRow>; 2],
    heap_bytes: usize,
}

struct Choice {
    key: Box<[u8]>,
    value: Box<[u8]>,
}

impl Choice {
    fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

impl Chosen {
    fn new(
        value: &DataType,
        key: Option<&DataType>,
        descending: bool,
        takes_null_values: bool,
    ) -> Result<Self> {
        let converter = |data_type: &DataType| RowConverter::new(vec![sort_field(data_type)]);
        let null = |converter: &RowConverter, data_type: &DataType| -> Result<OwnedRow> {
            Ok(converter.convert_columns(&[new_null_array(data_type, 1)])?.row(0).owned())
        };
        let values = converter(value)?;
        let keys = key.map(converter).transpose()?;
        let null_key = match (&keys, key) {
            (Some(keys), Some(key)) => Some(null(keys, key)?),
            _ => None,
        };
        let nulls = [Some(null(&values, value)?), null_key];
        Ok(Self {
            values,
            keys,
            descending,
            takes_null_values,
            rows: Vec::new(),
            nulls,
            heap_bytes: 0,
        })
    }

    /// Returns for each row true if it is neither filtered out nor left out for a null.
    fn taken(&self, arguments: &[ArrayRef], filter: Option<&BooleanArray>) -> Vec<bool> {
        let rows = arguments.first().map_or(0, |column| column.len());
        let mut taken = vec![true; rows];
        let mut nulls = Vec::new();
        if !self.takes_null_values || self.keys.is_none() {
            nulls.extend(arguments.first().and_then(|value| value.logical_nulls()));
        }
        if self.keys.is_some() {
            nulls.extend(arguments.get(1).and_then(|key| key.logical_nulls()));
        }
        for (row, taken) in taken.iter_mut().enumerate() {
            let passes = filter.is_none_or(|it| it.is_valid(row) && it.value(row));
            *taken = passes && nulls.iter().all(|nulls| nulls.is_valid(row));
        }
        taken
    }

    /// Replaces the chosen rows of groups for which the batch has a better one. Only the values of
    /// chosen rows are encoded, after the whole batch was compared.
    fn choose(&mut self, arguments: &[ArrayRef], groups: &[usize], taken: &[bool]) -> Result<()> {
        let keys = match (&self.keys, arguments.get(1)) {
            (Some(keys), Some(key)) => Some(keys.convert_columns(&[canonical(key)])?),
            _ => None,
        };
        let key = |row: usize| keys.as_ref().map_or(&[][..], |keys| keys.row(row).data());
        let mut best: Vec<(usize, u32)> = Vec::new();
        for (row, &group) in groups.iter().enumerate().filter(|(row, _)| taken[*row]) {
            let key = key(row);
            let replaces = match &self.rows[group] {
                None => true,
                Some(choice) if self.descending => *key > *choice.key,
                Some(choice) => *key < *choice.key,
            };
            if replaces {
                let value: Box<[u8]> = Box::default();
                let choice = Choice { key: key.into(), value };
                self.heap_bytes += choice.bytes();
                let old = self.rows[group].replace(choice);
                self.heap_bytes -= old.map_or(0, |old| old.bytes());
                best.push((group, u32::try_from(row).unwrap_or(u32::MAX)));
            }
        }
        self.encode(&arguments[0], best)
    }

    /// Encodes the values of the last chosen row of each group.
    fn encode(&mut self, values: &ArrayRef, mut best: Vec<(usize, u32)>) -> Result<()> {
        best.reverse();
        best.sort_by_key(|(group, _)| *group);
        best.dedup_by_key(|(group, _)| *group);
        let places = UInt32Array::from_iter_values(best.iter().map(|(_, row)| *row));
        let rows = self.values.convert_columns(&[take(values, &places, None)?])?;
        for ((group, _), row) in best.iter().zip(rows.iter()) {
            if let Some(choice) = &mut self.rows[*group] {
                choice.value = row.data().into();
                self.heap_bytes += choice.value.len();
            }
        }
        Ok(())
    }

    fn values_of(&self, choices: &[Option<Choice>]) -> Result<ArrayRef> {
        let parser = self.values.parser();
        let rows = choices.iter().filter_map(|choice| match choice {
            Some(choice) => Some(parser.parse(&choice.value)),
            None => self.nulls[0].as_ref().map(OwnedRow::row),
        });
        one(self.values.convert_rows(rows)?)
    }

    fn keys_of(&self, choices: &[Option<Choice>]) -> Result<Option<ArrayRef>> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let parser = keys.parser();
        let rows = choices.iter().filter_map(|choice| match choice {
            Some(choice) => Some(parser.parse(&choice.key)),
            None => self.nulls[1].as_ref().map(OwnedRow::row),
        });
        one(keys.convert_rows(rows)?).map(Some)
    }

    fn emit(&mut self, emit: EmitTo) -> Vec<Option<Choice>> {
        let choices = emit.take_needed(&mut self.rows);
        let bytes: usize = choices.iter().flatten().map(Choice::bytes).sum();
        self.heap_bytes -= bytes;
        choices
    }
}

fn one(columns: Vec<ArrayRef>) -> Result<ArrayRef> {
    match columns.into_iter().next() {
        Some(column) => Ok(column),
        None => internal_err!("encoded rows without a column"),
    }
}

impl GroupsAccumulator for Chosen {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        if self.rows.len() < total {
            self.rows.resize_with(total, || None);
        }
        let taken = self.taken(values, filter);
        self.choose(values, groups, &taken)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let choices = self.emit(emit);
        self.values_of(&choices)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let choices = self.emit(emit);
        let values = self.values_of(&choices)?;
        Ok([Some(values), self.keys_of(&choices)?].into_iter().flatten().collect())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let left_out = self.taken(values, filter).into_iter().map(|taken| !taken);
        let left_out = BooleanArray::from(left_out.collect::<Vec<_>>());
        let columns = values.iter().take(if self.keys.is_some() { 2 } else { 1 });
        columns.map(|column| without(column, &left_out)).collect()
    }

    fn size(&self) -> usize {
        // The allocator adds about 16 bytes to each of the two.
        let filled = self.rows.iter().flatten().count();
        let overhead = self.rows.capacity() * size_of::<Option<Choice>>() + filled * 32;
        size_of_val(self) + overhead + self.heap_bytes + self.values.size()
    }
}

/// Returns an array that is null where `left_out` is true.
fn without(column: &ArrayRef, left_out: &BooleanArray) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Null => Ok(Arc::clone(column)),
        _ => Ok(nullif(column, left_out)?),
    }
}
