//! Columns that are the same in all rows of a file: its name, and the keys of its directories.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, plan_err};

use super::found::FoundFile;
use super::guess::Guess;

/// The value of a directory for nulls, as Hive writes it.
const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Columns that are the same in all rows of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Constants {
    /// The names and types of these columns.
    pub(super) fields: Vec<Field>,
    /// For each file, its value of each of the `fields`.
    pub(super) values: Vec<Vec<ScalarValue>>,
}

/// Options for the columns of file names and of directory keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConstantOptions {
    /// Name of the column of file names.
    pub(crate) filename: Option<String>,
    /// True if directories such as `year=2024` become columns, false if not. If `None`, they do if
    /// all files have the same keys.
    pub(crate) hive_partitioning: Option<bool>,
    /// True if the columns of keys have the type VARCHAR, whatever their values.
    pub(crate) are_keys_text: bool,
}

impl Constants {
    /// The columns of files.
    ///
    /// # Errors
    /// Files without the keys that the options ask for.
    pub(super) fn of(files: &[FoundFile], options: &ConstantOptions) -> Result<Self> {
        let mut fields = vec![];
        let mut values = vec![vec![]; files.len()];
        if let Some(name) = &options.filename {
            fields.push(Field::new(name, DataType::Utf8View, false));
            for (values, file) in values.iter_mut().zip(files) {
                values.push(ScalarValue::Utf8View(Some(file.name())));
            }
        }
        let partitions: Vec<_> = files.iter().map(FoundFile::partitions).collect();
        let keys = |file: &[(String, String)]| -> Vec<String> {
            file.iter().map(|(key, _)| key.clone()).collect()
        };
        let first = partitions.first().map(|file| keys(file)).unwrap_or_default();
        let differing = partitions.iter().position(|file| keys(file) != first);
        if options.hive_partitioning == Some(false) || first.is_empty() && differing.is_none() {
            return Ok(Self { fields, values });
        }
        if let Some(differing) = differing {
            if options.hive_partitioning != Some(true) {
                return Ok(Self { fields, values });
            }
            return plan_err!(
                "the directories of {} and of {} have different keys; say hive_partitioning = \
                 false",
                files[0].name(),
                files[differing].name()
            );
        }
        for (place, key) in first.iter().enumerate() {
            let texts: Vec<&str> = partitions.iter().map(|file| file[place].1.as_str()).collect();
            let data_type = type_of(&texts, !options.are_keys_text);
            for (values, text) in values.iter_mut().zip(texts) {
                values.push(value(text, &data_type)?);
            }
            fields.push(Field::new(key, data_type, true));
        }
        Ok(Self { fields, values })
    }
}

/// The type of a key: BIGINT, DATE or TIMESTAMP if all values have it, else VARCHAR.
fn type_of(texts: &[&str], is_inferred: bool) -> DataType {
    let texts = texts.iter().filter(|text| **text != NULL_PARTITION);
    let guess = texts.map(|text| Guess::of_text(text)).fold(Guess::Null, Guess::or);
    match guess {
        Guess::Integer | Guess::Date | Guess::Timestamp if is_inferred => {
            guess.data_type().unwrap_or(DataType::Utf8View)
        }
        _ => DataType::Utf8View,
    }
}

fn value(text: &str, data_type: &DataType) -> Result<ScalarValue> {
    let text = (text != NULL_PARTITION).then(|| decoded(text));
    ScalarValue::Utf8View(text).cast_to(data_type)
}

/// Decodes the escapes of a directory or a URL, `%20`.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (*first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &more[2..];
            }
            (first, _) => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<FoundFile> {
        paths.iter().map(|path| FoundFile::local(path.into(), 0)).collect()
    }

    fn options(hive_partitioning: Option<bool>) -> ConstantOptions {
        ConstantOptions { filename: Some("f".to_owned()), hive_partitioning, are_keys_text: false }
    }

    #[test]
    fn keys_of_directories_are_typed_columns() {
        let files = files(&["h/y=2023/k=a%20b/x.csv", "h/y=2024/k=__HIVE_DEFAULT_PARTITION__/y"]);
        let constants = Constants::of(&files, &options(None)).expect("columns");
        let fields: Vec<_> = constants
            .fields
            .iter()
            .map(|field| (field.name().as_str(), field.data_type()))
            .collect();
        let (text, number) = (&DataType::Utf8View, &DataType::Int64);
        assert_eq!(fields, [("f", text), ("y", number), ("k", text)]);
        assert_eq!(
            constants.values[0][1..],
            [2023_i64.into(), ScalarValue::Utf8View(Some("a b".into()))]
        );
        assert!(constants.values[1][2].is_null());
        let without = Constants::of(&files, &options(Some(false))).expect("columns");
        assert_eq!(without.fields.len(), 1);
    }

    #[test]
    fn differing_keys_are_no_columns() {
        let files = files(&["h/y=1/x.csv", "h/z=1/x.csv"]);
        assert_eq!(Constants::of(&files, &options(None)).expect("columns").fields.len(), 1);
        let error = Constants::of(&files, &options(Some(true))).expect_err("refused").to_string();
        assert!(error.contains("h/z=1/x.csv"), "{error}");
    }
}
