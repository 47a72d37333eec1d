//! Random terminal input, as specified in clauses 2.1.6 and 2.4 to 2.8.

use std::time::{SystemTime, UNIX_EPOCH};

use super::database::Scale;
use crate::random::Random;

/// Constants of the non-uniform distributions. Those of last names differ between loading and
/// running, by 65 to 119 but neither 96 nor 112.
const NAME_LOADING: u32 = 157;
const NAME_RUNNING: u32 = 223;
const CUSTOMER: u32 = 259;
const ITEM: u32 = 7911;

/// Number of last names.
const NAMES: u32 = 1000;
/// Minimum and maximum number of lines of an order.
pub(super) const LINES_MIN: u32 = 5;
pub(super) const LINES_MAX: u32 = 15;

/// Draws `NURand(most, low, high)` with a constant: some numbers are more frequent than others.
fn uneven(random: &mut Random, most: u32, constant: u32, low: u32, high: u32) -> u32 {
    let drawn = random.between(0, most) | random.between(low, high);
    (drawn + constant) % (high - low + 1) + low
}

pub(super) fn item(random: &mut Random, scale: &Scale) -> u32 {
    uneven(random, 8191, ITEM, 1, scale.items)
}

pub(super) fn customer(random: &mut Random, scale: &Scale) -> u32 {
    uneven(random, 1023, CUSTOMER, 1, scale.customers)
}

pub(super) fn district(random: &mut Random, scale: &Scale) -> u32 {
    random.between(1, scale.districts)
}

/// Draws the number of a last name that at least one customer of every district has.
pub(super) fn last_name(random: &mut Random, scale: &Scale) -> u32 {
    uneven(random, 255, NAME_RUNNING, 0, names(scale) - 1)
}

/// Returns the number of the last name of a loaded customer: the first customers have one name
/// each, the others random ones.
pub(super) fn loaded_name(random: &mut Random, scale: &Scale, customer: u32) -> u32 {
    if customer <= names(scale) {
        return customer - 1;
    }
    uneven(random, 255, NAME_LOADING, 0, names(scale) - 1)
}

fn names(scale: &Scale) -> u32 {
    NAMES.min(scale.customers)
}

/// Draws a warehouse other than `home`, or `home` if there is no other.
pub(super) fn other_warehouse(random: &mut Random, scale: &Scale, home: u32) -> u32 {
    if scale.warehouses == 1 {
        return home;
    }
    let drawn = random.between(1, scale.warehouses - 1);
    drawn + u32::from(drawn >= home)
}

/// Returns the current time in microseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers_are_as_frequent_as_specified() {
        const DRAWS: u64 = 600_000;
        let (scale, mut random) = (Scale::specified(5), Random::new(1, 2));
        let mut counts = vec![0_u64; 3001];
        for _ in 0..DRAWS {
            counts[customer(&mut random, &scale) as usize] += 1;
        }
        let mut ways = vec![0_u64; 3001];
        for any in 0..=1023_usize {
            (1..=3000).for_each(|number| ways[((any | number) + 259) % 3000 + 1] += 1);
        }
        for (number, (count, ways)) in counts.iter().zip(&ways).enumerate() {
            let expected = (DRAWS * ways) as f64 / (1024.0 * 3000.0);
            let off = (*count as f64 - expected).abs();
            assert!(off <= 6.0 * expected.sqrt() + 1.0, "{number}: {count}, not {expected}");
        }
    }

    #[test]
    fn items_and_names_are_in_range() {
        let (scale, mut random) = (Scale::specified(5), Random::new(1, 2));
        let items: Vec<u32> = (0..100_000).map(|_| item(&mut random, &scale)).collect();
        let names: Vec<u32> = (0..100_000).map(|_| last_name(&mut random, &scale)).collect();
        assert!(items.iter().all(|item| (1..=100_000).contains(item)));
        assert!(names.iter().all(|name| *name < 1000));
        assert!(items.iter().any(|item| *item > 99_000) && names.iter().any(|name| *name > 990));
    }

    #[test]
    fn other_warehouses_are_not_the_own() {
        let mut random = Random::new(3, 0);
        let mut counts = [0; 6];
        for _ in 0..1_000 {
            counts[other_warehouse(&mut random, &Scale::specified(5), 3) as usize] += 1;
        }
        assert_eq!((counts[0], counts[3]), (0, 0));
        assert!([1, 2, 4, 5].iter().all(|at| counts[*at] > 180), "{counts:?}");
        assert_eq!(other_warehouse(&mut random, &Scale::specified(1), 1), 1);
    }

    #[test]
    fn every_name_has_a_customer() {
        let mut random = Random::new(3, 0);
        for customers in [20, 3000] {
            let scale = Scale { customers, ..Scale::specified(1) };
            let mut has = vec![false; names(&scale) as usize];
            for customer in 1..=customers {
                has[loaded_name(&mut random, &scale, customer) as usize] = true;
            }
            assert!(has.iter().all(|has| *has));
            assert!((0..1000).all(|_| (last_name(&mut random, &scale) as usize) < has.len()));
        }
    }
}
