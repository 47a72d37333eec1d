//! A decoder with a planted defect, which every search must find: `cargo x targets` fails unless
//! this target panics.
#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;

/// Decodes the word `RUN`, the bytes of a value, the number of values, and the values; returns the
/// sum of their bytes. The defect: values of 4 bytes are read without a check of the length.
fn decode(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(b"RUN")?;
    let (&width, rest) = rest.split_first()?;
    let (&count, values) = rest.split_first()?;
    let length = usize::from(width) * usize::from(count);
    match width {
        1 | 2 if values.len() < length => None,
        1 | 2 | 4 => Some(values[..length].iter().map(|byte| u64::from(*byte)).sum()),
        _ => None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    black_box(decode(bytes));
});
