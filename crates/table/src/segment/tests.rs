//! Tests of segments against their source arrays, and against damage.

mod compact;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, Int64Array, RunArray, StringViewArray,
};
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::arrow::datatypes::{DataType, Int32Type};
use proptest::prelude::*;
use terrace_testkit::Rng;

use super::format::{ALIGNMENT, HEADER_BYTES, seal};
use super::*;
use crate::test_support::{array, types};

/// Builds a page as the pool would provide it: aligned, longer than the segment, and not zeroed.
fn page(plan: &SegmentPlan) -> MutableBuffer {
    let len = plan.bytes().next_multiple_of(4096);
    let mut page = MutableBuffer::from_len_zeroed(len);
    page.fill(0xa5);
    plan.write(&mut page).expect("write");
    page
}

fn encode(blocks: &[ArrayRef]) -> MutableBuffer {
    let plans = blocks.iter().map(|block| BlockPlan::of(block).expect("plan")).collect();
    page(&SegmentPlan::new(blocks[0].data_type(), plans).expect("one type"))
}

struct Page(MutableBuffer);

impl AsRef<[u8]> for Page {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn open(page: MutableBuffer, data_type: &DataType) -> Result<Segment, SegmentError> {
    Segment::open_bytes(Bytes::from_owner(Page(page)), data_type)
}

/// Returns all buffers of an array and its children.
fn buffers(data: &ArrayData) -> Vec<Buffer> {
    let nulls = data.nulls().map(|nulls| nulls.buffer().clone());
    let own = data.buffers().iter().cloned().chain(nulls);
    own.chain(data.child_data().iter().flat_map(buffers)).collect()
}

/// Returns slices of a random array at arbitrary offsets.
fn random_blocks(rng: &mut Rng, data_type: &DataType) -> Vec<ArrayRef> {
    let nulls = rng.below(4);
    (0..1 + rng.index(4))
        .map(|_| {
            let len = rng.index(200);
            let array = array(rng, data_type, len, nulls);
            let offset = rng.index(array.len() + 1);
            array.slice(offset, rng.index(array.len() - offset + 1))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_type_comes_back_without_a_copy(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let blocks = random_blocks(&mut rng, &data_type);
            let page = encode(&blocks);
            let (start, len) = (page.as_ptr() as usize, page.len());
            let segment = open(page, &data_type).expect("open");
            prop_assert_eq!(segment.blocks(), blocks.len());
            prop_assert_eq!(segment.rows(), blocks.iter().map(|block| block.len()).sum::<usize>());
            for (index, block) in blocks.iter().enumerate() {
                let read = segment.block(index).expect("block");
                prop_assert_eq!(&read, block, "{}", data_type);
                read.to_data().validate_full().expect("valid");
                for buffer in buffers(&read.to_data()).iter().filter(|buffer| !buffer.is_empty()) {
                    let at = buffer.as_ptr() as usize;
                    prop_assert!(at >= start && at + buffer.len() <= start + len, "{}", data_type);
                    prop_assert_eq!(at % ALIGNMENT, 0);
                    prop_assert_eq!(buffer.capacity(), buffer.len());
                }
            }
            prop_assert!(segment.block(blocks.len()).is_err());
        }
    }

    #[test]
    fn a_damaged_directory_is_an_error(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let blocks = random_blocks(&mut rng, &data_type);
            let mut page = encode(&blocks);
            let directory = directory_len(&page);
            let at = rng.index(directory);
            page[at] ^= 1 << rng.below(8);
            prop_assert!(open(page, &data_type).is_err(), "{} byte {}", data_type, at);
        }
    }

    #[test]
    fn a_wrong_directory_with_the_right_checksum_never_panics(seed: u64) {
        let mut rng = Rng::new(seed);
        for data_type in types() {
            let blocks = random_blocks(&mut rng, &data_type);
            let mut page = encode(&blocks);
            let directory = directory_len(&page);
            for _ in 0..1 + rng.index(4) {
                let at = HEADER_BYTES + rng.index(directory - HEADER_BYTES);
                page[at] = [0, 1, 0x7f, 0x80, 0xff, page[at] ^ 1][rng.index(6)];
            }
            seal(&mut page[..directory]);
            if let Ok(segment) = open(page, &data_type) {
                for index in 0..segment.blocks().min(100) {
                    // An array or an error; either way the access must stay within the page.
                    let _ = segment.block(index);
                }
            }
        }
    }

    #[test]
    fn random_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut page = MutableBuffer::new(bytes.len());
        page.extend_from_slice(&bytes);
        prop_assert!(open(page, &DataType::Int64).is_err());
    }
}

fn directory_len(page: &[u8]) -> usize {
    let len = page[20..24].try_into().expect("four bytes");
    usize::try_from(u32::from_le_bytes(len)).expect("a length")
}

#[test]
fn views_hold_what_their_rows_use_and_nothing_else() {
    let long = |i: usize| format!("a string too long for its view, number {i:05}");
    let all = StringViewArray::from_iter_values((0..8_000).map(long));
    let plan = BlockPlan::of(&all.slice(100, 10)).expect("plan");
    assert!(plan.bytes() < 10 * (16 + 45) + 300, "{}", plan.bytes());
    // Nulls take no bytes, repeated values are stored once.
    let repeated =
        StringViewArray::from_iter((0..8_000).map(|i| (i % 2 == 0).then(|| long(i % 8))));
    let plan = BlockPlan::of(&repeated).expect("plan");
    assert!(plan.bytes() < 8_000 * 16 + 1_000 + 4 * 64 + 300, "{}", plan.bytes());
    let plan = SegmentPlan::new(&DataType::Utf8View, vec![plan]).expect("one type");
    let read = open(page(&plan), &DataType::Utf8View);
    let read = read.expect("open").block(0).expect("block");
    assert_eq!(read.as_string_view(), &repeated);
}

#[test]
fn dictionaries_hold_the_values_in_use() {
    let mut rng = Rng::new(1);
    let data_type = types().into_iter().find(|t| matches!(t, DataType::Dictionary(..)));
    let data_type = data_type.expect("a dictionary");
    let dictionary = array(&mut rng, &data_type, 3, 0);
    let read = open(encode(std::slice::from_ref(&dictionary)), &data_type).expect("open");
    let read = read.block(0).expect("block");
    assert!(read.as_any_dictionary().values().len() <= 3);
    assert_eq!(&read, &dictionary);
}

#[test]
fn a_segment_is_of_one_type() {
    let block: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
    let error = open(encode(&[block]), &DataType::Float64).expect_err("another type");
    assert!(error.to_string().contains("does not hold Float64"), "{error}");
    let numbers = BlockPlan::of(&Int64Array::from(vec![1, 2, 3])).expect("plan");
    let texts = BlockPlan::of(&StringViewArray::from(vec!["a"])).expect("plan");
    let Err(error) = SegmentPlan::new(&DataType::Utf8View, vec![texts, numbers]) else {
        panic!("numbers would be read as views")
    };
    assert!(error.to_string().contains("block 1 is no Utf8View"), "{error}");
}

#[test]
fn other_versions_and_encodings_are_named() {
    let block: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
    for (at, expected) in [(4, "version 9"), (5, "encoding 9"), (0, "TSEG")] {
        let mut page = encode(std::slice::from_ref(&block));
        page[at] = 9;
        let error = open(page, &DataType::Int64).expect_err("must be refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn types_without_a_place_are_refused_with_what_to_use() {
    let runs = RunArray::<Int32Type>::from_iter(["a", "a", "b"]);
    let Err(error) = BlockPlan::of(&runs) else { panic!("must be refused") };
    assert!(error.to_string().contains("cast it to the type of its values"), "{error}");
    types().iter().for_each(|data_type| check_type(data_type).expect("storable"));
}

#[test]
fn too_little_room_is_an_error() {
    let plan = BlockPlan::of(&Int64Array::from(vec![1; 100])).expect("plan");
    let plan = SegmentPlan::new(&DataType::Int64, vec![plan]).expect("one type");
    assert!(matches!(plan.write(&mut [0; 64]), Err(SegmentError::Room { given: 64, .. })));
}
