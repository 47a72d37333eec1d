//! Order-preserving encoding of keys.
//!
//! Numbers are big-endian and take no more bytes than they need: a district and the line of an
//! order one, a warehouse and a customer two, an item three. Pages are searched by the first four
//! bytes after the common prefix of their keys, and with short numbers these distinguish most keys.

/// Sizes of keys in bytes.
const WAREHOUSE_BYTES: usize = 2;
const DISTRICT_BYTES: usize = WAREHOUSE_BYTES + 1;
const CUSTOMER_BYTES: usize = DISTRICT_BYTES + 2;
const ORDER_BYTES: usize = DISTRICT_BYTES + 4;
const ITEM_BYTES: usize = 3;
/// Size of a name in a key in bytes: names are at most as long and contain no zero bytes.
const NAME_BYTES: usize = 16;
/// Size of the common prefix of the keys of customers with one last name.
const NAMED_BYTES: usize = DISTRICT_BYTES + NAME_BYTES;

/// Key of a district, which is also the prefix of the keys of everything in it.
pub(super) type District = [u8; DISTRICT_BYTES];
pub(super) type Customer = [u8; CUSTOMER_BYTES];
pub(super) type Order = [u8; ORDER_BYTES];
pub(super) type Named = [u8; NAMED_BYTES];

/// Concatenates two parts.
fn joined<const BYTES: usize>(head: &[u8], tail: &[u8]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..head.len()].copy_from_slice(head);
    bytes[head.len()..].copy_from_slice(tail);
    bytes
}

/// Encodes a number in one byte: districts and lines are at most 15.
fn byte(number: u32) -> [u8; 1] {
    debug_assert!(number <= 0xff);
    [number.to_be_bytes()[3]]
}

/// Encodes a number in two bytes: a district has at most 3,000 customers, and there are at most
/// 65,535 warehouses.
fn two_bytes(number: u32) -> [u8; 2] {
    debug_assert!(number <= 0xffff);
    let [_, _, high, low] = number.to_be_bytes();
    [high, low]
}

/// Decodes a number from some bytes of a key; 0 if the key is too short.
fn number<const BYTES: usize>(key: &[u8], at: usize) -> u32 {
    let bytes = key.get(at..at + BYTES).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

pub(super) fn warehouse(warehouse: u32) -> [u8; WAREHOUSE_BYTES] {
    two_bytes(warehouse)
}

pub(super) fn district(warehouse: u32, district: u32) -> District {
    joined(&self::warehouse(warehouse), &byte(district))
}

pub(super) fn customer(warehouse: u32, district: u32, customer: u32) -> Customer {
    joined(&self::district(warehouse, district), &two_bytes(customer))
}

pub(super) fn order(warehouse: u32, district: u32, order: u32) -> Order {
    joined(&self::district(warehouse, district), &order.to_be_bytes())
}

/// Returns the order number from an order's key or a key that begins with one.
pub(super) fn order_of(key: &[u8]) -> u32 {
    number::<4>(key, DISTRICT_BYTES)
}

pub(super) fn order_line(order: &Order, line: u32) -> [u8; ORDER_BYTES + 1] {
    joined(order, &byte(line))
}

pub(super) fn order_by_customer(customer: &Customer, order: u32) -> [u8; CUSTOMER_BYTES + 4] {
    joined(customer, &order.to_be_bytes())
}

/// Returns the order number from a key by customer.
pub(super) fn customers_order(key: &[u8]) -> u32 {
    number::<4>(key, CUSTOMER_BYTES)
}

/// Key of an item, in three bytes: there are at most 100,000 items.
pub(super) fn item(item: u32) -> [u8; ITEM_BYTES] {
    debug_assert!(item <= 0xff_ffff);
    let [_, high, middle, low] = item.to_be_bytes();
    [high, middle, low]
}

pub(super) fn stock(warehouse: u32, item: u32) -> [u8; WAREHOUSE_BYTES + ITEM_BYTES] {
    joined(&self::warehouse(warehouse), &self::item(item))
}

/// Key of a history row: the specification defines none, so it consists of the session that wrote
/// the row and its number in that session.
pub(super) fn history(session: u32, entry: u32) -> [u8; 8] {
    joined(&session.to_be_bytes(), &entry.to_be_bytes())
}

/// Prefix of the keys of all customers with a last name.
pub(super) fn named(warehouse: u32, district: u32, last: &[u8]) -> Named {
    let mut bytes = [0; NAMED_BYTES];
    bytes[..DISTRICT_BYTES].copy_from_slice(&self::district(warehouse, district));
    bytes[DISTRICT_BYTES..DISTRICT_BYTES + last.len()].copy_from_slice(last);
    bytes
}

/// Key of a customer by last and first name. The number at the end distinguishes customers with the
/// same names.
pub(super) fn customer_by_name(
    named: &Named,
    first: &[u8],
    customer: u32,
) -> [u8; NAMED_BYTES + NAME_BYTES + 2] {
    let mut bytes = [0; NAMED_BYTES + NAME_BYTES + 2];
    bytes[..NAMED_BYTES].copy_from_slice(named);
    bytes[NAMED_BYTES..NAMED_BYTES + first.len()].copy_from_slice(first);
    bytes[NAMED_BYTES + NAME_BYTES..].copy_from_slice(&two_bytes(customer));
    bytes
}

/// Returns the customer number from a key by name.
pub(super) fn customer_of(key: &[u8]) -> u32 {
    number::<2>(key, NAMED_BYTES + NAME_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_their_numbers() {
        let warehouses = [1, 2, 255, 256, 257, 65_535];
        let numbers = [1, 2, 255, 256, 257, 65_535, 65_536, u32::MAX];
        let orders: Vec<_> = warehouses
            .iter()
            .flat_map(|first| numbers.map(|second| order(*first, 10, second)))
            .collect();
        assert!(orders.is_sorted());
        assert_eq!(order_of(&orders[5]), 65_535);
        assert_eq!(order_of(&order_line(&orders[5], 9)), 65_535);
        assert_eq!(order_of(&district(1, 2)), 0);
        let lines: Vec<_> = orders
            .iter()
            .flat_map(|order| [1, 2, 15].map(|line| order_line(order, line)))
            .collect();
        assert!(lines.is_sorted());
        let customers: Vec<_> = [1, 255, 256, 3000]
            .into_iter()
            .flat_map(|number| {
                [1, 256, 70_000].map(|order| order_by_customer(&customer(1, 2, number), order))
            })
            .collect();
        assert!(customers.is_sorted());
        assert_eq!(customers_order(&customers[5]), 70_000);
        let stocks: Vec<_> = warehouses
            .iter()
            .flat_map(|warehouse| {
                [1, 255, 256, 65_536, 100_000].map(|item| stock(*warehouse, item))
            })
            .collect();
        assert!(stocks.is_sorted());
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
