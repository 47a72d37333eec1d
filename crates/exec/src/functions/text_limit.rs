//! Limits of the texts of `array_agg` and `string_agg`.
//!
//! A list of texts has offsets of 31 bits, beyond which Arrow panics, and a text of `string_agg`
//! has at most 1 GiB, as in PostgreSQL.

use std::fmt;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// Maximum bytes of the text of `string_agg`.
const TEXT_BYTES_MAX: usize = 1 << 30;
/// Maximum bytes of the texts of lists whose offsets have 31 bits.
const LIST_BYTES_MAX: usize = (1 << 31) - 1;

/// The bytes of texts that an aggregate holds, and their limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// True for `string_agg`, false for `array_agg`.
    is_text: bool,
    /// True if equal values are kept once.
    is_distinct: bool,
    /// Bytes of all values so far; more than are kept if equal values are kept once.
    bytes: usize,
    most: usize,
}

impl Limit {
    /// Returns the limit of `string_agg` or `array_agg`.
    pub(super) fn of(name: &str, is_distinct: bool) -> Self {
        let is_text = name == "string_agg";
        // Distinct texts are kept as a list, with memory for each of them.
        let most = if is_text && !is_distinct { TEXT_BYTES_MAX } else { LIST_BYTES_MAX };
        Self { is_text, is_distinct, bytes: 0, most }
    }

    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        let added = values.first().map_or(0, |values| self.bytes_of(values));
        self.bytes = self.bytes.saturating_add(added);
        self.check(self.bytes)
    }

    fn remove(&mut self, values: &[ArrayRef]) {
        let removed = values.first().map_or(0, |values| self.bytes_of(values));
        self.bytes = self.bytes.saturating_sub(removed);
    }

    fn check(&self, bytes: usize) -> Result<()> {
        self.check_at_most(bytes, self.most)
    }

    fn check_at_most(&self, bytes: usize, most: usize) -> Result<()> {
        match bytes > most {
            true => exec_err!(
                "{}: the texts of a result have {bytes} bytes or more; at most {most} are \
                 possible; group by more columns, or aggregate shorter texts",
                if self.is_text { "string_agg" } else { "array_agg" }
            ),
            false => Ok(()),
        }
    }

    /// Returns the bytes of values that count.
    fn bytes_of(&self, values: &ArrayRef) -> usize {
        match values.data_type() {
            DataType::Utf8 => between(values.as_string::<i32>().value_offsets()),
            DataType::Binary => between(values.as_binary::<i32>().value_offsets()),
            DataType::LargeUtf8 if self.is_text => {
                let offsets = values.as_string::<i64>().value_offsets();
                let ends = offsets.first().zip(offsets.last());
                ends.map_or(0, |(first, last)| usize::try_from(last - first).unwrap_or(0))
            }
            DataType::Utf8View if self.is_text => {
                let lengths = values.as_string_view().lengths();
                lengths.map(|length| usize::try_from(length).unwrap_or(usize::MAX)).sum()
            }
            DataType::List(_) => {
                let lists = values.as_list::<i32>();
                let ends = lists.value_offsets().first().zip(lists.value_offsets().last());
                let range = ends.map_or(0..0, |(first, last)| position(*first)..position(*last));
                self.bytes_of(&lists.values().slice(range.start, range.len()))
            }
            _ => 0,
        }
    }
}

fn position(offset: i32) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

fn between(offsets: &[i32]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(first, last)| position(*last) - position(*first))
}

/// Accumulator of one group that refuses values beyond a limit of bytes.
#[derive(Debug)]
pub(super) struct Limited {
    inner: Box<dyn Accumulator>,
    limit: Limit,
}

impl Limited {
    pub(super) fn new(inner: Box<dyn Accumulator>, limit: Limit) -> Self {
        Self { inner, limit }
    }

    /// Counts the bytes of values that are added. Where equal ones are kept once and the bytes of
    /// all would be too many, those that are kept count, by the accumulator's memory.
    fn add(&mut self, values: &[ArrayRef]) -> Result<()> {
        match self.limit.add(values) {
            Err(_) if self.limit.is_distinct => {
                self.limit.bytes = self.inner.size();
                self.limit.add(values)
            }
            added => added,
        }
    }
}

impl Accumulator for Limited {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)?;
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.limit.remove(values);
        self.inner.retract_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states)?;
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let result = self.inner.evaluate()?;
        if let ScalarValue::LargeUtf8(Some(text)) = &result {
            self.limit.check_at_most(text.len(), TEXT_BYTES_MAX)?;
        }
        Ok(result)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// Accumulators of groups with a limit: of all lists together, or of each text.
pub(super) struct LimitedGroups {
    inner: Box<dyn GroupsAccumulator>,
    limit: Limit,
}

impl LimitedGroups {
    pub(super) fn new(inner: Box<dyn GroupsAccumulator>, limit: Limit) -> Self {
        Self { inner, limit }
    }

    /// Counts the bytes of values that are added to lists (`array_agg`), those that the filter
    /// passes. The texts of `string_agg` are checked when they are emitted, each on its own.
    fn add(&mut self, values: &[ArrayRef], filtered: Option<&BooleanArray>) -> Result<()> {
        match (values.first(), filtered) {
            _ if self.limit.is_text => Ok(()),
            (Some(values), Some(filtered)) if self.limit.bytes_of(values) > 0 => {
                self.limit.add(&[filter(values, filtered)?])
            }
            _ => self.limit.add(values),
        }
    }

    fn emitted(&mut self, emit: EmitTo, result: &ArrayRef) -> Result<()> {
        if !self.limit.is_text {
            match emit {
                EmitTo::All => self.limit.bytes = 0,
                EmitTo::First(_) => self.limit.remove(std::slice::from_ref(result)),
            }
            return Ok(());
        }
        let Some(texts) = result.as_string_opt::<i64>() else { return Ok(()) };
        let longest = texts.value_offsets().windows(2).map(|ends| ends[1] - ends[0]).max();
        self.limit.check(usize::try_from(longest.unwrap_or(0)).unwrap_or(0))
    }
}

impl GroupsAccumulator for LimitedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.add(values, filter)?;
        self.inner.update_batch(values, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.add(states, None)?;
        self.inner.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let result = self.inner.evaluate(emit)?;
        self.emitted(emit, &result)?;
        Ok(result)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let state = self.inner.state(emit)?;
        state.first().map_or(Ok(()), |state| self.emitted(emit, state))?;
        Ok(state)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

impl fmt::Debug for LimitedGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedGroups").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ListArray, StringArray, StringViewArray};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn texts_that_do_not_fit_are_refused_before_they_are_kept() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["abc", "de"]));
        let mut limit = Limit { most: 7, ..Limit::of("array_agg", false) };
        limit.add(std::slice::from_ref(&text)).expect("five bytes");
        let error = limit.add(std::slice::from_ref(&text)).expect_err("ten bytes").to_string();
        assert!(
            error.contains("array_agg: the texts of a result have 10 bytes or more; at most 7")
        );
        limit.remove(std::slice::from_ref(&text));
        limit.remove(&[text]);
        assert_eq!(limit.bytes, 0);
    }

    /// Keeps its values once, each with three bytes.
    #[derive(Debug)]
    struct Once(Vec<String>);

    impl Accumulator for Once {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            for text in values[0].as_string::<i32>().iter().flatten() {
                if !self.0.iter().any(|kept| kept == text) {
                    self.0.push(text.to_owned());
                }
            }
            Ok(())
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::LargeUtf8(Some(self.0.concat())))
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(vec![])
        }

        fn size(&self) -> usize {
            self.0.len() * 3
        }
    }

    #[test]
    fn equal_texts_count_once_if_they_are_kept_once() {
        let of = |is_distinct| {
            let limit = Limit { most: 12, ..Limit::of("string_agg", is_distinct) };
            Limited::new(Box::new(Once(vec![])), limit)
        };
        let batch = |texts: Vec<&str>| -> [ArrayRef; 1] { [Arc::new(StringArray::from(texts))] };
        let mut distinct = of(true);
        for _ in 0..20 {
            distinct.update_batch(&batch(vec!["abc", "def"])).expect("six bytes");
        }
        let text = ScalarValue::LargeUtf8(Some("abcdef".to_owned()));
        assert_eq!(distinct.evaluate().expect("a text"), text);
        distinct.update_batch(&batch(vec!["ghi", "jkl"])).expect("twelve bytes");
        let error = distinct.update_batch(&batch(vec!["mno"])).expect_err("fifteen bytes");
        assert!(error.to_string().contains("have 15 bytes or more"), "{error}");
        let mut all = of(false);
        all.update_batch(&batch(vec!["abc", "def"])).expect("six bytes");
        all.update_batch(&batch(vec!["abc", "def"])).expect("twelve bytes");
        all.update_batch(&batch(vec!["abc", "def"])).expect_err("eighteen bytes");
    }

    /// Ignores its values.
    struct Nothing;

    impl GroupsAccumulator for Nothing {
        fn update_batch(
            &mut self,
            _: &[ArrayRef],
            _: &[usize],
            _: Option<&BooleanArray>,
            _: usize,
        ) -> Result<()> {
            Ok(())
        }

        fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> Result<()> {
            Ok(())
        }

        fn evaluate(&mut self, _: EmitTo) -> Result<ArrayRef> {
            exec_err!("no result")
        }

        fn state(&mut self, _: EmitTo) -> Result<Vec<ArrayRef>> {
            exec_err!("no state")
        }

        fn convert_to_state(
            &self,
            _: &[ArrayRef],
            _: Option<&BooleanArray>,
        ) -> Result<Vec<ArrayRef>> {
            exec_err!("no state")
        }

        fn size(&self) -> usize {
            0
        }
    }

    #[test]
    fn values_that_a_filter_excludes_do_not_count() {
        let limit = Limit { most: 4, ..Limit::of("array_agg", false) };
        let mut groups = LimitedGroups::new(Box::new(Nothing), limit);
        let texts: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["abc", "def"]))];
        let one = BooleanArray::from(vec![Some(true), None]);
        groups.update_batch(&texts, &[0, 0], Some(&one), 1).expect("three bytes");
        groups.update_batch(&texts, &[0, 0], Some(&one), 1).expect_err("six bytes");
    }

    #[test]
    fn lists_of_views_have_no_limit_and_texts_of_views_have() {
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["abc"]));
        assert_eq!(Limit::of("array_agg", false).bytes_of(&views), 0);
        assert_eq!(Limit::of("string_agg", false).bytes_of(&views), 3);
        let numbers: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some([Some(1)])]));
        assert_eq!(Limit::of("array_agg", false).bytes_of(&numbers), 0);
    }
}
