//! Detection of the dialect, the header and the types of delimited values from a sample.

use super::super::guess::Guess;
use super::dialect::{Dialect, Step, Value};
use super::options::CsvOptions;

/// Delimiters and quotes that are tried, by precedence.
const DELIMITERS: [u8; 4] = [b',', b'|', b';', b'\t'];
const QUOTES: [u8; 2] = [b'"', b'\''];

/// Properties of a file that its sample shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sniffed {
    pub(crate) dialect: Dialect,
    pub(crate) has_header: bool,
    /// Names of the columns, from the header or numbered.
    pub(crate) names: Vec<String>,
    /// Types of the columns.
    pub(crate) guesses: Vec<Guess>,
    /// Mean length of a row in bytes.
    pub(crate) row_bytes: u64,
    /// Number of rows of the sample.
    pub(crate) rows: usize,
}

/// The beginning of a file, without its skipped lines.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub(crate) bytes: &'a [u8],
    /// True if the sample is the whole file.
    pub(crate) is_whole: bool,
}

/// Rows of a sample.
#[derive(Default)]
struct Rows {
    values: Vec<Vec<Value>>,
    bytes: usize,
    malformed: usize,
}

/// Detects the properties of a file that the options do not set.
pub(crate) fn sniff(sample: Sample<'_>, options: &CsvOptions) -> Sniffed {
    let terminator = match sample.bytes.iter().find(|byte| matches!(byte, b'\n' | b'\r')) {
        Some(b'\r') if !sample.bytes.contains(&b'\n') => b'\r',
        _ => b'\n',
    };
    let dialect = dialect(sample, options, terminator);
    let rows = Rows::read(&dialect, sample, options.sample_rows);
    let width = rows.values.first().map_or(0, Vec::len);
    let bodies = rows.values.get(1..).unwrap_or_default();
    let guesses = guesses(&dialect, sample.bytes, bodies, width, options);
    let first = rows.values.first().map(Vec::as_slice).unwrap_or_default();
    let has_header = options
        .header
        .unwrap_or_else(|| is_header(&dialect, sample.bytes, first, bodies, &guesses, options));
    let names = match has_header {
        true => header_names(&dialect, sample.bytes, first),
        false => (0..width).map(|column| format!("column{column}")).collect(),
    };
    let guesses = match has_header {
        true => guesses,
        false => {
            let first = &rows.values[..rows.values.len().min(1)];
            let first = self::guesses(&dialect, sample.bytes, first, width, options);
            guesses.into_iter().zip(first).map(|(one, other)| one.or(other)).collect()
        }
    };
    let row_bytes = rows.bytes.checked_div(rows.values.len()).unwrap_or(1).max(1);
    let row_bytes = u64::try_from(row_bytes).unwrap_or(u64::MAX);
    let rows = rows.values.len();
    Sniffed { dialect, has_header, names, guesses, row_bytes, rows }
}

impl Rows {
    /// Reads the rows of a sample, without blank lines and without a row that the sample cuts off.
    fn read(dialect: &Dialect, sample: Sample<'_>, most: usize) -> Self {
        let (bytes, mut at, mut rows) = (sample.bytes, 0, Self::default());
        while at < bytes.len() && rows.values.len() < most {
            let mut values = vec![];
            match dialect.row(bytes, at, sample.is_whole, &mut values) {
                Step::Row(next) => {
                    if !is_blank(&values) {
                        rows.values.push(values);
                        rows.bytes += next - at;
                    }
                    at = next;
                }
                Step::Comment(next) => at = next,
                Step::Malformed(next, _) => {
                    rows.malformed += 1;
                    at = next;
                }
                Step::End | Step::Incomplete => break,
            }
        }
        rows
    }

    /// Number of rows that have as many values as the first one.
    fn regular(&self) -> usize {
        let width = self.values.first().map_or(0, Vec::len);
        self.values.iter().filter(|values| values.len() == width).count()
    }
}

/// True for the values of a blank line.
pub(super) fn is_blank(values: &[Value]) -> bool {
    matches!(values, [value] if value.start == value.end && !value.is_quoted)
}

/// The dialect under which most rows have the same number of values, and that more than one.
fn dialect(sample: Sample<'_>, options: &CsvOptions, terminator: u8) -> Dialect {
    let delimiters = options.delimiter.map_or(DELIMITERS.to_vec(), |delimiter| vec![delimiter]);
    let quotes = match options.quote {
        Some(quote) => vec![quote],
        None => QUOTES.iter().copied().map(Some).collect(),
    };
    let mut best: Option<((bool, usize, usize), Dialect)> = None;
    for quote in quotes {
        for delimiter in &delimiters {
            if quote == Some(*delimiter) {
                continue;
            }
            let escape = options.escape.unwrap_or(quote).filter(|_| quote.is_some());
            let comment = options.comment;
            let dialect = Dialect {
                delimiter: *delimiter,
                quote,
                escape,
                comment,
                terminator,
                is_text: options.is_text,
            };
            let rows = Rows::read(&dialect, sample, options.sample_rows.min(1000));
            let width = rows.values.first().map_or(0, Vec::len);
            let all = rows.values.len() + rows.malformed;
            let is_regular = rows.regular() == all && width > 1;
            let share = rows.regular() * 1000 / all.max(1);
            let rank = (is_regular, if width > 1 { share } else { 0 }, width);
            if best.is_none_or(|(known, _)| rank > known) {
                best = Some((rank, dialect));
            }
        }
    }
    best.map_or(Dialect::CSV, |(_, dialect)| dialect)
}

/// Guesses the type of each of `width` columns from the values of the sampled rows.
fn guesses(
    dialect: &Dialect,
    bytes: &[u8],
    rows: &[Vec<Value>],
    width: usize,
    options: &CsvOptions,
) -> Vec<Guess> {
    let mut guesses = vec![Guess::Null; width];
    for values in rows.iter().filter(|values| values.len() == width || options.null_padding) {
        for (guess, value) in guesses.iter_mut().zip(values) {
            if *guess != Guess::Text && !is_null(dialect, bytes, value, options) {
                let text = dialect.content(bytes, value);
                let text = String::from_utf8_lossy(&text);
                *guess = std::mem::take(guess).or(options.numbers.guess(&text));
            }
        }
    }
    guesses
}

fn is_null(dialect: &Dialect, bytes: &[u8], value: &Value, options: &CsvOptions) -> bool {
    if value.is_quoted && !options.quoted_nulls {
        return false;
    }
    let content = dialect.content(bytes, value);
    options.nulls.iter().any(|null| null.as_bytes() == content.as_ref())
}

/// True if the first row is a header: one of its values is a text in a column of another type, or,
/// if no column has another type or there are no other rows, all of its values are texts.
fn is_header(
    dialect: &Dialect,
    bytes: &[u8],
    first: &[Value],
    rows: &[Vec<Value>],
    guesses: &[Guess],
    options: &CsvOptions,
) -> bool {
    let firsts = self::guesses(dialect, bytes, &[first.to_vec()], first.len(), options);
    let is_text = |guess: &Guess| matches!(guess, Guess::Text | Guess::Null);
    if rows.is_empty() || guesses.iter().all(is_text) {
        return !firsts.is_empty() && firsts.iter().all(|guess| *guess == Guess::Text);
    }
    let differs = |(first, guess): (&Guess, &Guess)| !is_text(guess) && *first == Guess::Text;
    firsts.iter().zip(guesses).any(differs)
}

/// The names of a header: blanks are trimmed, and a missing or repeated name gets a number.
pub(super) fn header_names(dialect: &Dialect, bytes: &[u8], values: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = vec![];
    for (column, value) in values.iter().enumerate() {
        let content = dialect.content(bytes, value);
        let text = String::from_utf8_lossy(&content);
        let text = text.trim_start_matches('\u{feff}').trim();
        let base = if text.is_empty() { format!("column{column}") } else { text.to_owned() };
        let mut name = base.clone();
        let mut number = 1;
        while names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            name = format!("{base}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sniffed(text: &str) -> (Vec<String>, Vec<Guess>, u8, bool) {
        let sample = Sample { bytes: text.as_bytes(), is_whole: true };
        let Sniffed { names, guesses, dialect, has_header, .. } =
            sniff(sample, &CsvOptions::default());
        (names, guesses, dialect.delimiter, has_header)
    }

    /// Names and types that DuckDB 2.0 finds.
    #[test]
    fn dialects_headers_and_types_are_those_of_duckdb() {
        use Guess::{Double, Integer, Null, Text};
        let cases: &[(&str, &[&str], &[Guess], u8)] = &[
            ("id;name\n1;a,b\n2;c\n", &["id", "name"], &[Integer, Text], b';'),
            ("1,ann\n2,bob\n", &["column0", "column1"], &[Integer, Text], b','),
            ("id\tname\n1\ta\n", &["id", "name"], &[Integer, Text], b'\t'),
            ("id|v\r\n1|2.5\r\n", &["id", "v"], &[Integer, Double], b'|'),
            ("a,b\nx,y\nz,w\n", &["a", "b"], &[Text, Text], b','),
            ("v\n1\n2\n", &["v"], &[Integer], b','),
            ("id,name\n1,'a,b'\n2,'c'\n", &["id", "name"], &[Integer, Text], b','),
            ("a,b\n", &["a", "b"], &[Null, Null], b','),
            ("a,a,\n1,2,3\n", &["a", "a_1", "column2"], &[Integer, Integer, Integer], b','),
            ("id, name\n1, x\n", &["id", "name"], &[Integer, Text], b','),
            ("z,p\n007,+5\n", &["z", "p"], &[Text, Text], b','),
            ("1,2\n", &["column0", "column1"], &[Integer, Integer], b','),
        ];
        for (text, names, guesses, delimiter) in cases {
            let found = sniffed(text);
            assert_eq!(
                (&found.0[..], &found.1[..], found.2),
                (
                    &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()[..],
                    *guesses,
                    *delimiter,
                ),
                "{text:?}"
            );
        }
        assert_eq!(sniffed(""), (vec![], vec![], b',', false));
    }
}
