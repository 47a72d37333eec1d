//! Tests of compact segments against their source arrays, and against damage.

use std::sync::Arc;

use datafusion::arrow::array::{BooleanArray, Int32Array, StringArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter;

use super::*;

/// Builds arrays of every type, some of which shrink, in blocks at arbitrary offsets.
fn blocks_of(rng: &mut Rng, data_type: &DataType) -> Vec<ArrayRef> {
    let nulls = rng.below(4);
    // Few distinct values, so that most types shrink.
    let some = array(rng, data_type, 40, nulls);
    let repeated: Vec<&dyn Array> = std::iter::repeat_n(some.as_ref(), 40).collect();
    let whole = datafusion::arrow::compute::concat(&repeated).expect("joined");
    (0..1 + rng.index(3))
        .map(|_| {
            let offset = rng.index(whole.len());
            whole.slice(offset, rng.index(whole.len() - offset + 1))
        })
        .collect()
}

fn compact(blocks: &[ArrayRef]) -> Option<MutableBuffer> {
    let pieces: Vec<&dyn Array> = blocks.iter().map(AsRef::as_ref).collect();
    let plan = CompactPlan::of(&pieces).expect("plan")?;
    let mut page = MutableBuffer::from_len_zeroed(plan.bytes().next_multiple_of(4096));
    page.fill(0xa5);
    plan.write(&mut page).expect("write");
    Some(page)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_type_comes_back(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let blocks = blocks_of(&mut rng, &data_type);
            let Some(page) = compact(&blocks) else { continue };
            let segment = open(page, &data_type).expect("open");
            let segment = if rng.index(2) == 0 { segment.copied().expect("copy") } else { segment };
            prop_assert_eq!(segment.blocks(), blocks.len());
            let decoder = segment.compact().expect("compact");
            for (index, block) in blocks.iter().enumerate() {
                let read = segment.block(index).expect("block");
                prop_assert_eq!(&read, block, "{}", data_type);
                read.to_data().validate_full().expect("valid");
                prop_assert_eq!(segment.block_rows(index).expect("rows"), block.len());
                let every = 1 + rng.index(9);
                let bits = BooleanBuffer::collect_bool(block.len(), |row| row % every == 0);
                let some = decoder.read(index, Some(&bits)).expect("rows");
                let expected = filter(block, &BooleanArray::new(bits, None)).expect("filters");
                prop_assert_eq!(&some, &expected, "{}", data_type);
            }
            prop_assert!(segment.block(blocks.len()).is_err());
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let blocks = blocks_of(&mut rng, &data_type);
            let Some(page) = compact(&blocks) else { continue };
            let directory = directory_len(&page);
            let mut damaged = MutableBuffer::from_len_zeroed(page.len());
            damaged.copy_from_slice(&page);
            damaged[rng.index(directory)] ^= 1 << rng.below(8);
            prop_assert!(open(damaged, &data_type).is_err(), "{}", data_type);
            // With the right checksum over wrong bytes: an array or an error.
            let mut page = page;
            for _ in 0..1 + rng.index(4) {
                let at = HEADER_BYTES + rng.index(directory - HEADER_BYTES);
                page[at] = [0, 1, 0x7f, 0x80, 0xff, page[at] ^ 1][rng.index(6)];
            }
            seal(&mut page[..directory]);
            if let Ok(segment) = open(page, &data_type) {
                (0..segment.blocks().min(100)).for_each(|index| drop(segment.block(index)));
            }
        }
    }
}

#[test]
fn dictionaries_answer_by_value_and_others_do_not() {
    let words = (0..5000).map(|row| format!("a word of some length, number {}", row % 9));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    let segment = open(compact(&[text]).expect("shrinks"), &DataType::Utf8).expect("open");
    let segment = segment.compact().expect("compact");
    let values = segment.distinct_values().expect("decodes").expect("a dictionary");
    assert_eq!(values.len(), 9);
    let wanted: Vec<bool> = (0..9).map(|value| value == 0).collect();
    let rows = segment.rows_with(0, &wanted).expect("looks up");
    assert_eq!(rows.count_set_bits(), 556);
    assert!(segment.rows_with(1, &wanted).is_err());
    let rising: ArrayRef = Arc::new(Int32Array::from_iter_values(0..5000));
    let segment = open(compact(&[rising]).expect("shrinks"), &DataType::Int32).expect("open");
    assert!(segment.compact().expect("compact").distinct_values().expect("decodes").is_none());
}
