//! Tests of statistics against brute force.

use std::collections::HashSet;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use proptest::prelude::*;
use terrace_testkit::Rng;

use super::*;
use crate::test_support::{array, types};

fn collect(blocks: &[ArrayRef]) -> SegmentStatistics {
    let mut collector = Collector::default();
    blocks.iter().for_each(|block| collector.add(block).expect("collect"));
    collector.finish().0
}

/// Returns the values that are not null; for a dictionary, the values that its keys stand for.
fn values(blocks: &[ArrayRef]) -> Vec<ScalarValue> {
    let rows = blocks.iter().flat_map(|block| (0..block.len()).map(move |row| (block, row)));
    let values =
        rows.map(|(block, row)| match ScalarValue::try_from_array(block, row).expect("a value") {
            ScalarValue::Dictionary(_, value) => *value,
            value => value,
        });
    values.filter(|value| !value.is_null()).collect()
}

fn length(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.len(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn statistics_are_what_brute_force_finds(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let nulls = rng.below(4);
            let len = rng.index(300);
            let blocks: Vec<ArrayRef> =
                (0..rng.index(4)).map(|_| array(&mut rng, &data_type, len, nulls)).collect();
            let statistics = collect(&blocks);
            let rows: usize = blocks.iter().map(|block| block.len()).sum();
            let null: usize = blocks.iter().map(|block| block.logical_null_count()).sum();
            prop_assert_eq!((statistics.rows, statistics.nulls), (rows, null), "{}", data_type);
            if data_type.is_nested() && !matches!(data_type, DataType::Dictionary(..)) {
                prop_assert!(statistics.distinct.is_none() || rows == 0);
                continue;
            }
            let values = values(&blocks);
            let distinct: HashSet<_> = values.iter().collect();
            let estimate = statistics.distinct.expect("an estimate");
            // Even among few values two or three may share a register.
            let error = estimate.abs_diff(distinct.len() as u64);
            prop_assert!(
                error as f64 <= 0.05 * distinct.len() as f64 + 3.0,
                "{data_type}: {estimate} for {}",
                distinct.len()
            );
            if matches!(data_type, DataType::Interval(_)) {
                prop_assert_eq!(&statistics.min, &None);
                continue;
            }
            let ordered = |a: &&ScalarValue, b: &&ScalarValue| a.partial_cmp(b).expect("ordered");
            let least = values.iter().min_by(ordered);
            let greatest = values.iter().max_by(ordered);
            check(least, statistics.min.as_ref(), |bound, value| bound <= value)?;
            if let (Some(_), None) = (greatest, &statistics.max) {
                prop_assert!(length(greatest.expect("some")) > BOUND_BYTES);
                continue;
            }
            check(greatest, statistics.max.as_ref(), |bound, value| bound >= value)?;
        }
    }
}

fn check(
    value: Option<&ScalarValue>,
    bound: Option<&Bound>,
    holds: impl Fn(&ScalarValue, &ScalarValue) -> bool,
) -> Result<(), TestCaseError> {
    let (Some(value), Some(bound)) = (value, bound) else {
        prop_assert_eq!(value.is_some(), bound.is_some());
        return Ok(());
    };
    prop_assert!(length(&bound.value) <= BOUND_BYTES + 3);
    prop_assert_eq!(bound.exact, length(value) <= BOUND_BYTES);
    if bound.exact {
        prop_assert_eq!(&bound.value, value);
    }
    prop_assert!(holds(&bound.value, value), "{} {}", bound.value, value);
    Ok(())
}

fn above(text: &str) -> Option<String> {
    let bound = Bound::above(ScalarValue::from(text))?;
    match bound.value {
        ScalarValue::Utf8(Some(text)) => Some(text),
        other => panic!("{other}"),
    }
}

#[test]
fn long_texts_are_rounded_up_by_their_last_character_that_can_be() {
    let long = "x".repeat(100);
    assert_eq!(above(&long), Some("x".repeat(63) + "y"));
    // The successor of the last character before the surrogates is the first one after them.
    let before = "\u{d7ff}".repeat(40);
    assert_eq!(above(&before), Some("\u{d7ff}".repeat(20) + "\u{e000}"));
    // The greatest character has no successor: the one before it is raised, or there is no bound.
    let mixed = format!("a{}", char::MAX.to_string().repeat(40));
    assert_eq!(above(&mixed), Some("b".to_owned()));
    assert_eq!(above(&char::MAX.to_string().repeat(40)), None);
    assert_eq!(Bound::above(ScalarValue::Binary(Some(vec![255; 80]))), None);
}

#[test]
fn floats_are_ordered_as_the_queries_order_them() {
    let values: ArrayRef = std::sync::Arc::new(Float64Array::from(vec![0.0, f64::NAN, -1.0, -0.0]));
    let statistics = collect(&[values]);
    let bound = |bound: Option<Bound>| bound.map(|bound| bound.value);
    assert_eq!(bound(statistics.min), Some(ScalarValue::from(-1.0)));
    assert_eq!(bound(statistics.max), Some(ScalarValue::from(f64::NAN)));
}
