//! UUIDs, as texts.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err};

use crate::scalar::{Call, Definition, Int32, Kind, Overload, Returns, Text};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("gen_random_uuid", &[Overload::returning(&[], Returns::Uuid, version_4)])
        .alias(&["uuidv4", "uuid"])
        .volatile(),
    Definition::new("uuidv7", &[Overload::returning(&[], Returns::Uuid, version_7)]).volatile(),
    Definition::new(
        "uuid_extract_version",
        &[Overload::returning(&[Kind::Text], Returns::Integer32, version)],
    ),
];

/// Bytes that a call takes from the random source at once.
const CHUNK: usize = 4_096;

/// Random numbers of 16 bytes, taken from the system in chunks.
struct Numbers {
    bytes: [u8; CHUNK],
    next: usize,
}

impl Numbers {
    fn new() -> Self {
        Self { bytes: [0; CHUNK], next: CHUNK }
    }

    fn take(&mut self) -> Result<u128> {
        if self.next >= CHUNK {
            getrandom::fill(&mut self.bytes)
                .map_err(|error| exec_datafusion_err!("no random numbers: {error}"))?;
            self.next = 0;
        }
        let bytes = self.bytes.get(self.next..).and_then(|rest| rest.first_chunk::<16>());
        self.next += 16;
        Ok(u128::from_be_bytes(bytes.copied().unwrap_or_default()))
    }
}

fn version_4(call: &Call) -> Result<ArrayRef> {
    let mut numbers = Numbers::new();
    call.rows_of::<Text>(|_| Ok(Some(uuid(numbers.take()?, 4).into())))
}

/// UUIDs that begin with the milliseconds since 1970.
fn version_7(call: &Call) -> Result<ArrayRef> {
    let mut numbers = Numbers::new();
    call.rows_of::<Text>(|_| {
        let millis = u128::from(chrono::Utc::now().timestamp_millis().unsigned_abs());
        Ok(Some(uuid(millis << 80 | numbers.take()? >> 48, 7).into()))
    })
}

/// The text of a number, with a version and RFC 9562's variant.
fn uuid(number: u128, version: u128) -> String {
    let number = number & !(0xF << 76) & !(0b11 << 62) | version << 76 | 0b10 << 62;
    let digits = format!("{number:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn version(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Int32>(|text| {
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let version = digits.chars().nth(12).and_then(|digit| digit.to_digit(16));
        match version.filter(|_| digits.len() == 32) {
            Some(version) => Ok(i32::try_from(version).ok()),
            None => Err(exec_datafusion_err!("{text:?} is no UUID")),
        }
    })
}
