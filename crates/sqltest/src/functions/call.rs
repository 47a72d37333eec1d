//! Calls with literals, and with columns of a table whose rows have the same values.

use super::argument::{Database, KINDS, Kind, SPECIAL_MAX, TYPICAL};
use super::shape::Argument;

/// Number of arguments, from the first, that take special values; further ones have typical values.
const PLACES: usize = 3;
/// The row whose values are all null.
const NULLS: usize = TYPICAL + PLACES * SPECIAL_MAX;
/// Number of rows of the table.
pub const ROWS: usize = NULLS + 1;
/// Name of the table.
pub const TABLE: &str = "t";
/// Number of rows of an INSERT, so that the table has several batches.
const INSERT_ROWS: usize = 5;
/// Maximum number of calls of one combination of types.
const CALLS_MAX: usize = 150;

/// The arguments of a call, each with one of its values.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    arguments: &'a [Argument],
    /// The row of the table that has the values of the arguments.
    pub row: usize,
    /// Index of the literal that an argument of the kind `Argument::Words` has.
    word: usize,
}

/// Returns the index, among the values of a type, of the value that a row of the table has for the
/// argument at `place`.
fn value(row: usize, place: usize) -> usize {
    match row {
        0..TYPICAL => (place + row) % TYPICAL,
        NULLS => TYPICAL,
        row if (row - TYPICAL) / SPECIAL_MAX == place => TYPICAL + (row - TYPICAL) % SPECIAL_MAX,
        _ => place % TYPICAL,
    }
}

fn column(kind: Kind, place: usize) -> String {
    format!("{}{}", format!("{kind:?}").to_lowercase(), place % PLACES)
}

/// True for a type that the table has columns of.
fn is_stored(kind: Kind) -> bool {
    kind != Kind::Map
}

impl<'a> Call<'a> {
    /// Returns the calls with arguments of these types: one for each row with values that no
    /// earlier row has, and for each literal.
    #[must_use]
    pub fn all(arguments: &'a [Argument]) -> Vec<Self> {
        let words = |argument: &Argument| match argument {
            Argument::Words(words) => Some(words.len()),
            Argument::Of(_) => None,
        };
        let words = arguments.iter().filter_map(words).max().unwrap_or(1);
        let rows: Vec<_> = (0..ROWS).filter(|row| is_used(arguments, *row)).collect();
        let calls = (0..words)
            .flat_map(|word| rows.iter().map(move |row| Self { arguments, row: *row, word }));
        calls.take(CALLS_MAX).collect()
    }

    /// Returns the arguments as literals; `None` if the database lacks a type.
    #[must_use]
    pub fn literals(&self, of: Database) -> Option<String> {
        let literal = |(place, argument): (usize, &Argument)| match argument {
            Argument::Of(kind) => kind.literal(value(self.row, place % PLACES), of),
            Argument::Words(words) => Some(self.word_of(words)),
        };
        let literals = self.arguments.iter().enumerate().map(literal);
        Some(literals.collect::<Option<Vec<_>>>()?.join(", "))
    }

    fn word_of(&self, words: &[&str]) -> String {
        let word = words.get(self.word).or(words.first()).copied().unwrap_or("NULL");
        word.to_owned()
    }

    /// True if the call has the same words as another.
    #[must_use]
    pub fn has_words_of(&self, other: &Self) -> bool {
        self.word == other.word
    }

    /// Returns the arguments as columns, and words as literals; `None` if there is no column.
    #[must_use]
    pub fn columns(&self) -> Option<String> {
        let argument = |(place, argument): (usize, &Argument)| match argument {
            Argument::Of(kind) => is_stored(*kind).then(|| column(*kind, place)),
            Argument::Words(words) => Some(self.word_of(words)),
        };
        let arguments: Option<Vec<_>> = self.arguments.iter().enumerate().map(argument).collect();
        let has_column = self.arguments.iter().any(|it| matches!(it, Argument::Of(_)));
        arguments.filter(|_| has_column).map(|arguments| arguments.join(", "))
    }
}

/// True if a row has values that no earlier row has, for these arguments.
fn is_used(arguments: &[Argument], row: usize) -> bool {
    match row {
        0 => true,
        NULLS => arguments.len() > 1,
        1 => arguments.iter().any(|it| matches!(it, Argument::Of(_))),
        row => {
            let (place, special) = ((row - TYPICAL) / SPECIAL_MAX, (row - TYPICAL) % SPECIAL_MAX);
            match arguments.get(place) {
                Some(Argument::Of(kind)) => special < kind.special(),
                _ => false,
            }
        }
    }
}

/// Returns the rows in which all arguments of these types are ordinary numbers, texts and times, or
/// null.
#[must_use]
pub fn tame_rows(arguments: &[Argument]) -> Vec<usize> {
    let nulls = (0..arguments.len().min(PLACES)).map(|place| TYPICAL + place * SPECIAL_MAX);
    (0..TYPICAL).chain(nulls).chain([NULLS]).filter(|row| is_used(arguments, *row)).collect()
}

/// Returns the rows whose values for these arguments no earlier row has.
#[must_use]
pub fn used_rows(arguments: &[Argument]) -> Vec<usize> {
    (0..ROWS).filter(|row| is_used(arguments, *row)).collect()
}

/// Returns the row whose values are null.
#[must_use]
pub fn null_row() -> usize {
    NULLS
}

/// Returns the statements that create the table in a database.
#[must_use]
pub fn table(of: Database) -> Vec<String> {
    let stored = KINDS.iter().copied().filter(|kind| is_stored(*kind));
    let columns: Vec<_> = stored.flat_map(|kind| (0..PLACES).map(move |at| (kind, at))).collect();
    let define = |(kind, place): &(Kind, usize)| {
        Some(format!("{} {}", column(*kind, *place), kind.name(of)?))
    };
    let definitions: Vec<_> = columns.iter().filter_map(define).collect();
    let mut statements = vec![
        format!("DROP TABLE IF EXISTS {TABLE}"),
        format!("CREATE TABLE {TABLE} (id BIGINT, {})", definitions.join(", ")),
    ];
    let rows: Vec<_> = (0..ROWS)
        .map(|row| {
            let value = |(kind, place): &(Kind, usize)| kind.literal(value(row, *place), of);
            let values: Vec<_> = columns.iter().filter_map(value).collect();
            format!("({row}, {})", values.join(", "))
        })
        .collect();
    let inserts = rows.chunks(INSERT_ROWS);
    statements
        .extend(inserts.map(|rows| format!("INSERT INTO {TABLE} VALUES {}", rows.join(", "))));
    statements
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_has_its_special_values_in_rows_of_their_own() {
        let arguments = [Argument::Of(Kind::Text), Argument::Of(Kind::Int)];
        let calls = Call::all(&arguments);
        let texts = calls.iter().filter_map(|call| call.literals(Database::Terrace));
        let texts: Vec<_> = texts.collect();
        assert_eq!(texts.first().map(String::as_str), Some("'Hello World', 2"));
        assert!(texts.contains(&"'Hello World', 9223372036854775807".to_owned()), "{texts:?}");
        assert!(texts.contains(&"'', 2".to_owned()), "{texts:?}");
        assert_eq!(
            texts.last().map(String::as_str),
            Some("CAST(NULL AS VARCHAR), CAST(NULL AS BIGINT)")
        );
        let columns = calls.first().and_then(Call::columns);
        assert_eq!(columns.as_deref(), Some("text0, int1"));
    }

    /// A fourth argument is that of the column of the first.
    #[test]
    fn literals_have_the_values_of_columns() {
        let arguments = [Argument::Of(Kind::Int); 4];
        for call in Call::all(&arguments) {
            let literals = call.literals(Database::Terrace).expect("literals");
            let literals: Vec<_> = literals.split(", ").collect();
            assert_eq!(literals[0], literals[3], "row {}", call.row);
        }
        let columns = Call::all(&arguments).first().and_then(Call::columns);
        assert_eq!(columns.as_deref(), Some("int0, int1, int2, int0"));
    }

    #[test]
    fn words_are_literals_in_both_forms() {
        let arguments = [Argument::Words(&["'day'", "'hour'"]), Argument::Of(Kind::Date)];
        let calls = Call::all(&arguments);
        assert!(calls.iter().any(|call| call.columns().as_deref() == Some("'hour', date1")));
    }
}
