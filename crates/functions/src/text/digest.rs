//! Digests: `md5` as hexadecimal digits, and PostgreSQL's `sha224` to `sha512` as bytes.
//!
//! DuckDB's `sha256` returns hexadecimal digits; here that is `encode(sha256(x), 'hex')`.

use std::fmt::Write as _;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::Result;
use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::scalar::{Bytes, Call, Definition, Kind, Overload, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "md5",
        &[
            Overload::new(&[Kind::Text], Kind::Text, md5_of_text),
            Overload::new(&[Kind::Bytes], Kind::Text, md5_digits),
        ],
    ),
    Definition::new("sha224", &[Overload::new(&[Kind::Bytes], Kind::Bytes, digest::<Sha224>)]),
    Definition::new("sha256", &[Overload::new(&[Kind::Bytes], Kind::Bytes, digest::<Sha256>)]),
    Definition::new("sha384", &[Overload::new(&[Kind::Bytes], Kind::Bytes, digest::<Sha384>)]),
    Definition::new("sha512", &[Overload::new(&[Kind::Bytes], Kind::Bytes, digest::<Sha512>)]),
];

fn md5_of_text(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Text>(|text| Ok(Some(lower_hex(&Md5::digest(text.as_bytes())).into())))
}

fn md5_digits(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Text>(|bytes| Ok(Some(lower_hex(&Md5::digest(bytes)).into())))
}

fn digest<D: Digest>(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Bytes>(|bytes| Ok(Some(D::digest(bytes).to_vec())))
}

/// Two hexadecimal digits for each byte.
pub(super) fn lower_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
