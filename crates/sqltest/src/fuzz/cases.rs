//! Cases by their numbers: their tables, settings and statements.

use super::generate::{Case, Generator};
use super::random::Random;
use super::schema::{self, Table};
use super::setup::Setup;

/// Number of cases of a group.
pub const GROUP_CASES: u64 = 48;
/// Number of consecutive cases that share settings.
pub const SETUP_CASES: u64 = 8;
/// One group in this many has a large table.
const LARGE_GROUPS: u64 = 10;
/// One case in this many runs in a group with a large table.
pub const LARGE_SHARE: u64 = 4;

/// Maximum number of rows of tables that are processed in batches of a few rows: a join of larger
/// ones would take minutes.
const SMALL_ROWS_MAX: usize = 100;

/// Returns the tables of a group.
pub fn tables(seed: u64, group: u64) -> Vec<Table> {
    let mut random = Random::new(seed, group.wrapping_mul(2));
    random.special = is_special(group);
    schema::tables(&mut random, is_large(group))
}

/// True if a group has a large table.
pub fn is_large(group: u64) -> bool {
    group % LARGE_GROUPS == LARGE_GROUPS - 1
}

/// True if a group has floats that are NaN, infinite or negative zero: one group in three.
fn is_special(group: u64) -> bool {
    group.is_multiple_of(3)
}

/// Returns the settings of a case.
pub fn setup(seed: u64, case: u64, tables: &[Table]) -> Setup {
    let small = tables.iter().all(|table| table.rows.len() <= SMALL_ROWS_MAX);
    Setup::random(&mut Random::new(!seed, case / SETUP_CASES), small)
}

/// Returns a case over the tables of its group.
pub fn case(seed: u64, number: u64, tables: &[Table]) -> Case {
    let mut random = Random::new(seed, number.wrapping_mul(2) + 1);
    random.special = is_special(number / GROUP_CASES);
    Generator::new(&mut random, tables).case()
}
