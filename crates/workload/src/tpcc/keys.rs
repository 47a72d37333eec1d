//! Keys whose bytes are in the order of what they are made of.

/// Bytes of a name in a key: names are at most as long and have no zero bytes.
pub(super) const NAME_BYTES: usize = 16;
/// Bytes of what the keys of customers of one name begin with.
const NAMED_BYTES: usize = 8 + NAME_BYTES;

/// The numbers of a key, or of what keys begin with, each by its highest byte first.
pub(super) fn key<const COUNT: usize, const BYTES: usize>(numbers: [u32; COUNT]) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * COUNT) };
    let mut bytes = [0; BYTES];
    for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

/// The number at a place of a key; 0 where there is none.
pub(super) fn number_at(key: &[u8], place: usize) -> u32 {
    let bytes = key.get(4 * place..4 * place + 4);
    bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

pub(super) fn warehouse(warehouse: u32) -> [u8; 4] {
    key([warehouse])
}

pub(super) fn district(warehouse: u32, district: u32) -> [u8; 8] {
    key([warehouse, district])
}

pub(super) fn customer(warehouse: u32, district: u32, customer: u32) -> [u8; 12] {
    key([warehouse, district, customer])
}

pub(super) fn order(warehouse: u32, district: u32, order: u32) -> [u8; 12] {
    key([warehouse, district, order])
}

pub(super) fn order_line(order: &[u8; 12], number: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..12].copy_from_slice(order);
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(super) fn order_by_customer(customer: &[u8; 12], order: u32) -> [u8; 16] {
    order_line(customer, order)
}

pub(super) fn item(item: u32) -> [u8; 4] {
    key([item])
}

pub(super) fn stock(warehouse: u32, item: u32) -> [u8; 8] {
    key([warehouse, item])
}

/// An entry of the history has no key in the specification: this one is where it was written.
pub(super) fn history(session: u32, entry: u32) -> [u8; 8] {
    key([session, entry])
}

/// What the keys of all customers of a last name begin with.
pub(super) fn named(warehouse: u32, district: u32, last: &[u8]) -> [u8; NAMED_BYTES] {
    let mut bytes = [0; NAMED_BYTES];
    bytes[..8].copy_from_slice(&self::district(warehouse, district));
    bytes[8..8 + last.len()].copy_from_slice(last);
    bytes
}

/// The key of a customer by last and first name. Customers of the same names are told apart by the
/// number at the end.
pub(super) fn customer_by_name(
    named: &[u8; NAMED_BYTES],
    first: &[u8],
    customer: u32,
) -> [u8; NAMED_BYTES + NAME_BYTES + 4] {
    let mut bytes = [0; NAMED_BYTES + NAME_BYTES + 4];
    bytes[..NAMED_BYTES].copy_from_slice(named);
    bytes[NAMED_BYTES..NAMED_BYTES + first.len()].copy_from_slice(first);
    bytes[NAMED_BYTES + NAME_BYTES..].copy_from_slice(&customer.to_be_bytes());
    bytes
}

/// The customer of a key by name.
pub(super) fn customer_of(key: &[u8]) -> u32 {
    number_at(key, (NAMED_BYTES + NAME_BYTES) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let numbers = [1, 2, 255, 256, 257, 65_535, 65_536, u32::MAX];
        let orders: Vec<_> = numbers
            .iter()
            .flat_map(|first| numbers.map(|second| order(1, *first, second)))
            .collect();
        assert!(orders.is_sorted());
        assert_eq!(number_at(&orders[5], 2), 65_535);
        assert_eq!(number_at(&order_line(&orders[5], 9), 3), 9);
        assert_eq!(number_at(&orders[5], 3), 0);
    }

    #[test]
    fn customers_are_in_the_order_of_their_names() {
        let by_name = |last: &str, first: &str, number| {
            customer_by_name(&named(3, 4, last.as_bytes()), first.as_bytes(), number)
        };
        let keys = [
            by_name("BAR", "Zoe", 9),
            by_name("BARBAR", "A", 2),
            by_name("BARBAR", "Aa", 1),
            by_name("BARBAR", "Aa", 7),
            by_name("BARBARA", "A", 3),
        ];
        assert!(keys.is_sorted());
        assert!(keys[1..4].iter().all(|key| key.starts_with(&named(3, 4, b"BARBAR"))));
        assert!(!keys[4].starts_with(&named(3, 4, b"BARBAR")));
        assert_eq!(keys.map(|key| customer_of(&key)), [9, 2, 1, 7, 3]);
    }
}
