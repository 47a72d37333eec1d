//! Random tables, which share column names on purpose.

use super::random::Random;
use super::types::{ColumnType, Value};

/// The column names of all tables.
const NAMES: [&str; 7] = ["id", "k", "v", "name", "d", "x", "ts"];

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub column: ColumnType,
}

/// A table with its rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// The table's name.
    pub name: String,
    /// The table's columns.
    pub columns: Vec<Column>,
    /// The rows: a value for each column, or `None` for null.
    pub rows: Vec<Vec<Option<Value>>>,
    /// True if Terrace stores the table with the plain encoding instead of the compact one.
    pub plain: bool,
    /// Number of INSERTs that fill the table.
    pub inserts: usize,
}

/// Returns two to four random tables. In a large group one of them has up to 200,000 rows.
pub fn tables(random: &mut Random, large: bool) -> Vec<Table> {
    let common = NAMES.map(|_| ColumnType::random(random));
    let count = random.between(2, 4);
    let table = |index: usize, random: &mut Random| {
        let rows = match large && index == 0 {
            true => *random.one(&[20_000, 50_000, 200_000]),
            false => rows(random),
        };
        table(index, rows, &common, random)
    };
    (0..count).map(|index| table(index, random)).collect()
}

fn rows(random: &mut Random) -> usize {
    match random.below(20) {
        0 if random.percent(50) => 0,
        0 | 1 => 1,
        2..=7 => random.between(2, 8),
        8..=15 => random.between(9, 60),
        16..=18 => random.between(61, 400),
        _ => random.between(401, 3000),
    }
}

fn table(index: usize, rows: usize, common: &[ColumnType], random: &mut Random) -> Table {
    let width = random.between(2, 5);
    let places = random.some(width, NAMES.len());
    let column = |place: usize, random: &mut Random| Column {
        name: NAMES[place].to_owned(),
        column: if random.percent(75) { common[place] } else { ColumnType::random(random) },
    };
    let columns: Vec<_> = places.into_iter().map(|place| column(place, random)).collect();
    let nulls: Vec<_> = columns.iter().map(|_| *random.one(&[0, 10, 20, 30, 60])).collect();
    let mut table = Table {
        name: ["t", "u", "w", "z"][index].to_owned(),
        columns,
        rows: Vec::new(),
        plain: random.percent(40),
        inserts: random.between(1, 3),
    };
    // In half of the tables one column is a key, if it has integers of 32 or 64 bits: its values
    // other than null are unique.
    let key = random.percent(50).then(|| random.below(width));
    for row in 0..rows {
        let value = |(place, nulls): (usize, &usize)| {
            let column = table.columns[place].column;
            if random.percent(*nulls) {
                return None;
            }
            match (column, key) {
                (ColumnType::Int { bits: 32 | 64, .. }, Some(key)) if key == place => {
                    Some(Value::Int(i64::try_from(row).unwrap_or(0)))
                }
                _ => Some(column.value(random)),
            }
        };
        let row = nulls.iter().enumerate().map(value).collect();
        table.rows.push(row);
    }
    table
}
