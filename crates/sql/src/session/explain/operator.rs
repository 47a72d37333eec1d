//! Tree of operators that EXPLAIN shows.

use std::fmt;

/// An operator with its description, estimate, measurements and inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operator {
    pub(super) words: Words,
    /// Estimate of the rows that it returns.
    pub(super) estimated_rows: Option<u64>,
    /// Measurements, if the statement has run and the operator has any.
    pub(super) measured: Option<Measured>,
    pub(super) inputs: Vec<Operator>,
}

/// The description of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Kind of the operator, in upper case: `HASH JOIN`.
    pub(super) name: String,
    /// Text behind the name: the kind of a join, the table of a scan; may be empty.
    pub(super) subject: String,
    /// Properties with their labels: `("On", "a = b")`.
    pub(super) details: Vec<(String, String)>,
}

impl Words {
    pub(super) fn new(name: &str, subject: impl Into<String>) -> Self {
        Self { name: name.to_owned(), subject: subject.into(), details: Vec::new() }
    }

    /// Adds a property, unless its text is empty.
    #[must_use]
    pub(super) fn with(mut self, label: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.details.push((label.to_owned(), text));
        }
        self
    }

    /// The name and the subject.
    pub(super) fn title(&self) -> String {
        match self.subject.is_empty() {
            true => self.name.clone(),
            false => format!("{} {}", self.name, self.subject),
        }
    }
}

/// Measurements of an operator, over all of its partitions. Quantities that it does not measure are
/// 0 or `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Rows that it returned.
    pub(super) rows: Option<u64>,
    /// Time that the operator itself ran, without its inputs, summed over the partitions.
    pub(super) nanos: Option<u64>,
    /// Most bytes that it held in memory, summed over its partitions.
    pub(super) peak_bytes: u64,
    pub(super) spilled_bytes: u64,
    /// Bytes of segments that it read from DRAM, from slower memory, and from the store.
    pub(super) dram_bytes: u64,
    pub(super) remote_bytes: u64,
    pub(super) store_bytes: u64,
    /// Bytes read from files of other formats.
    pub(super) file_bytes: u64,
}

/// Planning and execution times of a statement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Summary {
    pub(super) planning_nanos: u64,
    /// `None` if the statement has not run.
    pub(super) execution_nanos: Option<u64>,
}

impl Measured {
    /// Text of the bytes read from each source: "4.0 KiB from DRAM"; empty if none were read.
    pub(super) fn read(&self) -> String {
        let sources = [
            (self.dram_bytes, "from DRAM"),
            (self.remote_bytes, "from slower memory"),
            (self.store_bytes, "from the store"),
            (self.file_bytes, "from files"),
        ];
        let read = sources.iter().filter(|(bytes, _)| *bytes > 0);
        let read = read.map(|(bytes, source)| format!("{} {source}", Bytes(*bytes)));
        read.collect::<Vec<_>>().join(", ")
    }
}

impl Operator {
    /// Sums the bytes of a tree of operators; its rows and time are `None`.
    pub(super) fn total(&self) -> Measured {
        let own = self.measured.unwrap_or_default();
        let of_inputs = self.inputs.iter().map(Self::total);
        of_inputs.fold(Measured { rows: None, nanos: None, ..own }, |sum, input| Measured {
            peak_bytes: sum.peak_bytes.saturating_add(input.peak_bytes),
            spilled_bytes: sum.spilled_bytes.saturating_add(input.spilled_bytes),
            dram_bytes: sum.dram_bytes.saturating_add(input.dram_bytes),
            remote_bytes: sum.remote_bytes.saturating_add(input.remote_bytes),
            store_bytes: sum.store_bytes.saturating_add(input.store_bytes),
            file_bytes: sum.file_bytes.saturating_add(input.file_bytes),
            ..sum
        })
    }
}

/// Formats bytes with a binary unit and one decimal place at most, truncated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let Self(bytes) = *self;
        match units.into_iter().find(|(unit, _)| bytes >= *unit) {
            Some((unit, name)) => {
                let tenths = u128::from(bytes) * 10 / u128::from(unit);
                write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{bytes} bytes"),
        }
    }
}

/// Formats nanoseconds as milliseconds with three decimal places, truncated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Millis(pub(super) u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0 / 1000;
        write!(f, "{}.{:03} ms", micros / 1000, micros % 1000)
    }
}

/// Formats a number of rows: "1 row", "2 rows".
pub(super) fn rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units() {
        let shown = [0, 1023, 1024, 1536, 5 << 20, u64::MAX].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(
            shown,
            ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 MiB", "16777215.9 TiB"]
        );
        assert_eq!(Millis(1_234_567).to_string(), "1.234 ms");
        assert_eq!([rows(0), rows(1), rows(2)], ["0 rows", "1 row", "2 rows"]);
    }

    #[test]
    fn totals_add_the_bytes_of_all_inputs() {
        let measured = Some(Measured { rows: Some(7), store_bytes: 5, ..Measured::default() });
        let input = Operator { measured, ..Operator::default() };
        let tree = Operator { inputs: vec![input.clone(), input], ..Operator::default() };
        let total = tree.total();
        assert_eq!((total.rows, total.store_bytes), (None, 10));
        assert_eq!(total.read(), "10 bytes from the store");
    }
}
