//! Byte sizes: lossless conversion, rounding, parsing and printing.

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
/// 2^40 bytes.
pub const TIB: u64 = 1 << 40;
/// Page size: the smallest unit of memory and of storage that Terrace manages.
pub const PAGE_BYTES: usize = 4096;

const _: () = assert!(size_of::<usize>() == size_of::<u64>(), "Terrace needs 64-bit addresses");

/// Converts a byte count to an index; lossless, because only 64-bit targets build.
#[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
#[must_use]
pub const fn to_usize(bytes: u64) -> usize {
    bytes as usize
}

/// Converts an index to a byte count; lossless, because only 64-bit targets build.
#[must_use]
pub const fn to_u64(index: usize) -> u64 {
    index as u64
}

/// Returns the smallest multiple of `multiple` that is at least `bytes`; saturates at the largest
/// multiple below 2^64.
///
/// # Panics
/// Panics if `multiple` is zero.
#[must_use]
pub const fn round_up(bytes: u64, multiple: u64) -> u64 {
    match bytes.checked_next_multiple_of(multiple) {
        Some(rounded) => rounded,
        None => round_down(u64::MAX, multiple),
    }
}

/// Returns the largest multiple of `multiple` that is at most `bytes`.
///
/// # Panics
/// Panics if `multiple` is zero.
#[must_use]
pub const fn round_down(bytes: u64, multiple: u64) -> u64 {
    bytes - bytes % multiple
}

const BINARY_UNITS: [(&str, u64); 5] =
    [("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB), ("B", 1)];
const DECIMAL_UNITS: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];

/// Parses a size such as `4096`, `512MiB`, `1.5GiB` or `2GB` (decimal); upper or lower case.
///
/// # Errors
/// A sentence that quotes the text and gives valid examples.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor = unit_factor(unit.trim()).ok_or_else(|| {
        format!("\"{text}\" is not a size: write a number and KiB, MiB, GiB, TiB, KB, MB, GB or TB")
    })?;
    scale(number, factor)
        .ok_or_else(|| format!("\"{text}\" is not a size: write for example 4096, 512MiB or 2GiB"))
}

fn unit_factor(unit: &str) -> Option<u64> {
    if unit.is_empty() {
        return Some(1);
    }
    let mut units = BINARY_UNITS.iter().chain(&DECIMAL_UNITS);
    units.find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor)
}

/// Returns `number` times `factor` in whole bytes, rounded down; `None` if `number` is malformed,
/// has more than 12 digits of fraction, or the product is too large.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || number.ends_with('.') {
        return None;
    }
    let whole_bytes = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    if fraction.is_empty() {
        return Some(whole_bytes);
    }
    // Twelve digits of fraction resolve one byte in a TiB; longer fractions would overflow below.
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 12)?;
    let numerator = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor);
    let part = u64::try_from(numerator / 10u128.pow(digits)).ok()?;
    whole_bytes.checked_add(part)
}

/// Formats a size for display: in the largest binary unit, with one decimal unless it is whole
/// (`1.5GiB`).
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let (name, factor) =
        BINARY_UNITS.into_iter().find(|(_, factor)| bytes >= *factor).unwrap_or(("B", 1));
    if bytes.is_multiple_of(factor) {
        return format!("{}{name}", bytes / factor);
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(factor) / 2) / u128::from(factor);
    let larger = BINARY_UNITS.into_iter().rev().find(|(_, larger)| *larger > factor);
    match larger {
        // 1023.95 of a unit are rounded to one of the next.
        Some((larger, _)) if tenths == 10 * 1024 => format!("1.0{larger}"),
        _ => format!("{}.{}{name}", tenths / 10, tenths % 10),
    }
}

/// Formats a size so that [`parse_bytes`] returns the same number: in the largest binary unit that
/// divides it, or in bytes without a unit.
#[must_use]
pub fn exact_bytes(bytes: u64) -> String {
    let unit =
        BINARY_UNITS.into_iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) if factor > 1 => format!("{}{name}", bytes / factor),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4096),
            ("2GiB", 2 * GIB),
            ("512 MiB", 512 * MIB),
            ("1.5GiB", 3 * GIB / 2),
            ("2gb", 2_000_000_000),
            ("0.5KB", 500),
            ("7B", 7),
            (" 1TiB ", TIB),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn wrong_sizes_are_refused_by_name() {
        for text in ["", "GiB", "1.GiB", ".5GiB", "1.2.3MiB", "2 gigs", "-1", "99999999TiB", "5G"] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.contains(&format!("\"{text}\"")), "{error}");
        }
    }

    #[test]
    fn printed_sizes_are_short_and_exact_ones_read_back() {
        assert_eq!(format_bytes(0), "0B");
        assert_eq!(format_bytes(4096), "4KiB");
        assert_eq!(format_bytes(3 * GIB / 2), "1.5GiB");
        assert_eq!(format_bytes(GIB + 4096), "1.0GiB");
        for bytes in [0, 1, 4096, 5000, 3 * GIB / 2, GIB + 4096, u64::MAX] {
            assert_eq!(parse_bytes(&exact_bytes(bytes)), Ok(bytes));
        }
        assert_eq!(exact_bytes(3 * GIB / 2), "1536MiB");
    }

    #[test]
    fn rounding_saturates_instead_of_wrapping() {
        assert_eq!(round_up(1, 4096), 4096);
        assert_eq!(round_up(8192, 4096), 8192);
        assert_eq!(round_up(u64::MAX, 4096), u64::MAX - 4095);
        assert_eq!(round_down(4097, 4096), 4096);
    }
}
