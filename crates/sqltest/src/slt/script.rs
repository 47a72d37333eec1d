//! Parser of scripts in SQLite's version of the sqllogictest format.

use super::value::{Expected, Kind, Sort};

/// The label that the conditions `skipif` and `onlyif` are evaluated for: Terrace follows
/// PostgreSQL, for example in the division of integers.
pub const LABEL: &str = "postgresql";

/// One statement or query, with the number of its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The line number, from 1.
    pub line: usize,
    /// The SQL text.
    pub sql: String,
    /// The expected result.
    pub want: Want,
}

/// The expected result of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// The statement succeeds.
    Success,
    /// The statement fails.
    Failure,
    /// The query gives these values.
    Values {
        /// The types of the columns.
        kinds: Vec<Kind>,
        /// The order in which the values are compared.
        sort: Sort,
        /// The values.
        values: Expected,
    },
}

/// Parses a script and leaves out the records that [`LABEL`] skips.
///
/// # Errors
/// A message with the line number.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
    let mut records = Vec::new();
    let mut skip = false;
    while let Some((number, line)) = lines.next() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["skipif", label, ..] => skip |= label == LABEL,
            ["onlyif", label, ..] => skip |= label != LABEL,
            ["hash-threshold", ..] => skip = false,
            ["halt"] if skip => skip = false,
            ["halt"] => return Ok(records),
            ["statement", want @ ("ok" | "error")] => {
                let want = if want == "ok" { Want::Success } else { Want::Failure };
                let (sql, _) = body(&mut lines);
                push(&mut records, &mut skip, Record { line: number, sql, want });
            }
            ["query", kinds, ref rest @ ..] => {
                let (kinds, sort) = header(kinds, rest).map_err(|e| format!("{number}: {e}"))?;
                let (sql, values) = body(&mut lines);
                let want = Want::Values { kinds, sort, values: expected(values) };
                push(&mut records, &mut skip, Record { line: number, sql, want });
            }
            _ => return Err(format!("{number}: `{line}` is no record")),
        }
    }
    Ok(records)
}

fn push(records: &mut Vec<Record>, skip: &mut bool, record: Record) {
    if !std::mem::take(skip) {
        records.push(record);
    }
}

fn header(kinds: &str, rest: &[&str]) -> Result<(Vec<Kind>, Sort), String> {
    let kinds = kinds.chars().map(Kind::of).collect::<Result<_, _>>()?;
    let sort = match rest.first() {
        None | Some(&"nosort") => Sort::None,
        Some(&"rowsort") => Sort::Rows,
        Some(&"valuesort") => Sort::Values,
        Some(other) => return Err(format!("`{other}` is no order")),
    };
    Ok((kinds, sort))
}

/// Returns the text of a record, up to an empty line, and the lines after `----`.
fn body<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> (String, Vec<&'a str>) {
    let record = lines.map(|(_, line)| line).take_while(|line| !line.is_empty());
    let mut sql: Vec<&str> = Vec::new();
    let mut values = None;
    for line in record {
        match &mut values {
            None if line == "----" => values = Some(Vec::new()),
            None => sql.push(line),
            Some(values) => values.push(line),
        }
    }
    (sql.join("\n"), values.unwrap_or_default())
}

fn expected(values: Vec<&str>) -> Expected {
    if let [line] = values[..]
        && let Some((count, digest)) = line.split_once(" values hashing to ")
        && let Ok(count) = count.parse()
    {
        return Expected::Hashed { count, digest: digest.to_owned() };
    }
    Expected::Listed(values.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_those_of_the_label() {
        let text = "hash-threshold 8\n\nonlyif mysql # DIV\nquery I nosort\nSELECT 1 DIV 1\n----\n\
                    1\n\nskipif mysql # not compatible\nquery IT rowsort label-1\nSELECT 1,\n'a'\n\
                    ----\n1\na\n\nonlyif mssql\nhalt\n\nstatement error\nSELECT\n\n\
                    query R valuesort x\nSELECT 1\n----\n9 values hashing to abc\n\n\
                    skipif mysql\nhalt\n\nstatement ok\nSELECT 2\n";
        let records = parse(text).expect("parsed");
        assert_eq!(records.len(), 3, "{records:?}");
        assert_eq!((records[0].line, records[0].sql.as_str()), (10, "SELECT 1,\n'a'"));
        let values = Expected::Listed(vec!["1".to_owned(), "a".to_owned()]);
        let kinds = vec![Kind::Integer, Kind::Text];
        assert_eq!(records[0].want, Want::Values { kinds, sort: Sort::Rows, values });
        assert_eq!(records[1].want, Want::Failure);
        let values = Expected::Hashed { count: 9, digest: "abc".to_owned() };
        let kinds = vec![Kind::Real];
        assert_eq!(records[2].want, Want::Values { kinds, sort: Sort::Values, values });
        assert!(parse("query Q nosort\nSELECT 1\n").is_err());
        assert!(parse("subtest x\n").is_err());
    }
}
