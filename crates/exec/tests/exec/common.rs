//! Pools, memories and random arrays.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Array, ArrayRef, make_array, new_null_array};
use datafusion::arrow::array::{
    BinaryArray, BooleanArray, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array,
    ListArray, StringArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use terrace_exec::{FixedMemory, QueryMemory};
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig, Space};
use terrace_store::{MemoryBlocks, Store};
use terrace_testkit::Rng;

/// Creates a pool of `dram` bytes over a store in memory.
pub fn pool(dram: u64) -> Pool {
    let bytes = 1 << 30;
    let store = Store::open(Arc::new(MemoryBlocks::new(bytes)), "test store", bytes).unwrap();
    let mut config = PoolConfig::new("test", Ledger::new(dram));
    config.store = Some(Arc::new(store));
    config.patience = Duration::from_secs(20);
    Pool::new(config).unwrap()
}

/// Creates memory of `limit` bytes in a pool of `dram`.
pub fn memory(dram: u64, limit: u64) -> (Space, FixedMemory) {
    let space = pool(dram).create_space("query", None).unwrap();
    (space.clone(), FixedMemory::new(space, limit))
}

/// Asserts that a finished query holds nothing any more; waits for tasks that are still ending.
pub fn assert_freed(memory: &FixedMemory, what: &str) {
    let held = || (memory.held_bytes(), memory.space().resident_bytes());
    let until = Instant::now() + Duration::from_secs(10);
    while held() != (0, 0) {
        assert!(Instant::now() < until, "bytes of the grant, and of pages: {:?} {what}", held());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the bytes of pages in memory and of extents on the store.
pub fn pool_bytes(pool: &Pool) -> (u64, u64) {
    let pages = pool.stats().tiers.iter().map(|tier| tier.page_bytes).sum();
    (pages, pool.store().map_or(0, |store| store.stats().used_bytes))
}

/// Asserts that the pool becomes empty; pages being moved are freed when the move is done.
pub fn comes_to_be_empty(pool: &Pool) {
    let end = Instant::now() + Duration::from_secs(5);
    while pool_bytes(pool) != (0, 0) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(pool_bytes(pool), (0, 0), "bytes of pages, bytes of extents");
}

/// Returns types of every kind that rows can hold.
pub fn types() -> Vec<DataType> {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int16), Box::new(values));
    vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::UInt16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        DataType::Decimal128(20, 3),
        DataType::Decimal256(60, 5),
        DataType::FixedSizeBinary(5),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::BinaryView,
        DataType::List(item),
        DataType::Struct(vec![Field::new("a", DataType::Utf8, true)].into()),
        dictionary(DataType::Utf8),
        dictionary(DataType::Int64),
        DataType::Null,
    ]
}

/// Returns a random array: about one null in `nulls`, values out of `distinct`.
pub fn array(
    rng: &mut Rng,
    data_type: &DataType,
    len: usize,
    nulls: u64,
    distinct: u64,
) -> ArrayRef {
    let numbers: Vec<Option<i64>> = (0..len)
        .map(|_| {
            let value = i64::try_from(rng.below(distinct)).unwrap();
            (nulls == 0 || !rng.one_in(nulls)).then_some(value)
        })
        .collect();
    let text = |value: i64| {
        let long = if value % 3 == 0 { 40 } else { 1 };
        format!("{value}").repeat(long)
    };
    let strings = || StringArray::from_iter(numbers.iter().map(|v| v.map(text)));
    match data_type {
        DataType::Null => new_null_array(data_type, len),
        DataType::Boolean => {
            Arc::new(BooleanArray::from_iter(numbers.iter().map(|v| v.map(|v| v % 2 == 1))))
        }
        DataType::Float32 | DataType::Float64 => {
            let floats = numbers.iter().map(|v| v.map(float));
            cast(&Float64Array::from_iter(floats), data_type).unwrap()
        }
        DataType::Int8 => {
            let small = Int32Array::from_iter(numbers.iter().map(|v| v.map(|v| (v % 100) as i32)));
            cast(&small, data_type).unwrap()
        }
        DataType::FixedSizeBinary(width) => {
            let values = numbers.iter().map(|v| v.map(|v| v.to_le_bytes()[..5].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, *width).unwrap())
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&strings(), data_type).unwrap()
        }
        DataType::Binary | DataType::BinaryView => {
            cast(&BinaryArray::from(strings()), data_type).unwrap()
        }
        DataType::List(_) => {
            let lists = numbers.iter().map(|v| {
                v.map(|v| {
                    (0..v % 4).map(|n| (n != 2).then_some((v + n) as i32)).collect::<Vec<_>>()
                })
            });
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
        }
        DataType::Struct(fields) => {
            let nulls = numbers.iter().map(|v| v.is_none_or(|v| v % 5 != 0)).collect::<Vec<_>>();
            let child: ArrayRef = Arc::new(strings());
            Arc::new(StructArray::new(fields.clone(), vec![child], Some(nulls.into())))
        }
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => {
            cast(&strings(), data_type).unwrap()
        }
        data_type => {
            let unbounded: ArrayRef = Arc::new(Int64Array::from(numbers));
            cast(&unbounded, data_type).unwrap()
        }
    }
}

/// Returns numbers that include zeros of both signs and NaN.
fn float(value: i64) -> f64 {
    match value % 8 {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        _ => value as f64 / 2.0,
    }
}

/// Asserts that two arrays have the same values, bit for bit.
pub fn assert_same(found: &ArrayRef, expected: &ArrayRef) {
    assert_eq!(found.data_type(), expected.data_type());
    assert_eq!(found.len(), expected.len());
    found.to_data().validate_full().unwrap();
    // Dictionaries may be numbered differently.
    let plain = |array: &ArrayRef| match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).unwrap(),
        _ => make_array(array.to_data()),
    };
    let (found, expected) = (plain(found), plain(expected));
    if found.data_type().is_floating() {
        // NaN equals nothing.
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    } else {
        assert_eq!(&found, &expected);
    }
}
