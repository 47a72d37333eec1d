//! Row layout of each table (clause 1.3 of the specification).
//!
//! A row has a fixed length; columns that are part of the key are not repeated. Numbers are
//! little-endian, as on the machines that Terrace runs on.

/// A text column with a maximum length: a length of two bytes, then the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    at: usize,
    most: usize,
}

/// A column with a 32-bit number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    at: usize,
}

/// A column with a 64-bit number: cents, or a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Long {
    at: usize,
}

impl Text {
    const fn new(at: usize, most: usize) -> Self {
        Self { at, most }
    }

    const fn end(self) -> usize {
        self.at + 2 + self.most
    }

    /// Returns the text. A damaged length beyond the column's is clamped to it.
    pub(super) fn get(self, row: &[u8]) -> &[u8] {
        let len = usize::from(u16::from_le_bytes([row[self.at], row[self.at + 1]]));
        &row[self.at + 2..self.at + 2 + len.min(self.most)]
    }

    /// Writes the text, truncated to the column.
    pub(super) fn set(self, row: &mut [u8], text: &[u8]) {
        let text = &text[..text.len().min(self.most)];
        row[self.at + 2..self.at + 2 + text.len()].copy_from_slice(text);
        self.set_len(row, text.len());
    }

    /// Inserts text before the existing text, which is truncated to the column.
    pub(super) fn prepend(self, row: &mut [u8], text: &[u8]) {
        let text = &text[..text.len().min(self.most)];
        let kept = self.get(row).len().min(self.most - text.len());
        let begin = self.at + 2;
        row.copy_within(begin..begin + kept, begin + text.len());
        row[begin..begin + text.len()].copy_from_slice(text);
        self.set_len(row, text.len() + kept);
    }

    fn set_len(self, row: &mut [u8], len: usize) {
        // Columns are far shorter than 64 KiB.
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        row[self.at..self.at + 2].copy_from_slice(&len.to_le_bytes());
    }
}

impl Number {
    const fn new(at: usize) -> Self {
        Self { at }
    }

    const fn end(self) -> usize {
        self.at + 4
    }

    pub(super) fn get(self, row: &[u8]) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&row[self.at..self.at + 4]);
        u32::from_le_bytes(bytes)
    }

    pub(super) fn set(self, row: &mut [u8], value: u32) {
        row[self.at..self.at + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Adds to the number, wrapping on overflow, and returns the previous value.
    pub(super) fn add(self, row: &mut [u8], more: u32) -> u32 {
        let before = self.get(row);
        self.set(row, before.wrapping_add(more));
        before
    }
}

impl Long {
    const fn new(at: usize) -> Self {
        Self { at }
    }

    const fn end(self) -> usize {
        self.at + 8
    }

    pub(super) fn get(self, row: &[u8]) -> i64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&row[self.at..self.at + 8]);
        i64::from_le_bytes(bytes)
    }

    pub(super) fn set(self, row: &mut [u8], value: i64) {
        row[self.at..self.at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Adds to the number, wrapping on overflow.
    pub(super) fn add(self, row: &mut [u8], more: i64) {
        let sum = self.get(row).wrapping_add(more);
        self.set(row, sum);
    }
}

/// Columns of an address, the same in three tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    pub(super) street_1: Text,
    pub(super) street_2: Text,
    pub(super) city: Text,
    pub(super) state: Text,
    pub(super) zip: Text,
}

impl Address {
    const fn new(at: usize) -> Self {
        let street_1 = Text::new(at, 20);
        let street_2 = Text::new(street_1.end(), 20);
        let city = Text::new(street_2.end(), 20);
        let state = Text::new(city.end(), 2);
        let zip = Text::new(state.end(), 9);
        Self { street_1, street_2, city, state, zip }
    }

    const fn end(self) -> usize {
        self.zip.end()
    }
}

/// Columns of a warehouse. Rates are in hundredths of a percent, here and below.
pub(super) mod warehouse {
    use super::{Address, Long, Number, Text};

    pub(in super::super) const NAME: Text = Text::new(0, 10);
    pub(in super::super) const ADDRESS: Address = Address::new(NAME.end());
    pub(in super::super) const TAX: Number = Number::new(ADDRESS.end());
    pub(in super::super) const YTD: Long = Long::new(TAX.end());
    pub(in super::super) const BYTES: usize = YTD.end();
}

/// Columns of a district of a warehouse.
pub(super) mod district {
    use super::{Address, Long, Number, Text};

    pub(in super::super) const NAME: Text = Text::new(0, 10);
    pub(in super::super) const ADDRESS: Address = Address::new(NAME.end());
    pub(in super::super) const TAX: Number = Number::new(ADDRESS.end());
    pub(in super::super) const YTD: Long = Long::new(TAX.end());
    pub(in super::super) const NEXT_ORDER: Number = Number::new(YTD.end());
    pub(in super::super) const BYTES: usize = NEXT_ORDER.end();
}

/// Columns of a customer of a district.
pub(super) mod customer {
    use super::{Address, Long, Number, Text};

    pub(in super::super) const FIRST: Text = Text::new(0, 16);
    pub(in super::super) const MIDDLE: Text = Text::new(FIRST.end(), 2);
    pub(in super::super) const LAST: Text = Text::new(MIDDLE.end(), 16);
    pub(in super::super) const ADDRESS: Address = Address::new(LAST.end());
    pub(in super::super) const PHONE: Text = Text::new(ADDRESS.end(), 16);
    pub(in super::super) const SINCE: Long = Long::new(PHONE.end());
    pub(in super::super) const CREDIT: Text = Text::new(SINCE.end(), 2);
    pub(in super::super) const CREDIT_LIMIT: Long = Long::new(CREDIT.end());
    pub(in super::super) const DISCOUNT: Number = Number::new(CREDIT_LIMIT.end());
    pub(in super::super) const BALANCE: Long = Long::new(DISCOUNT.end());
    pub(in super::super) const YTD_PAYMENT: Long = Long::new(BALANCE.end());
    pub(in super::super) const PAYMENTS: Number = Number::new(YTD_PAYMENT.end());
    pub(in super::super) const DELIVERIES: Number = Number::new(PAYMENTS.end());
    pub(in super::super) const DATA: Text = Text::new(DELIVERIES.end(), 500);
    pub(in super::super) const BYTES: usize = DATA.end();
}

/// Columns of a history row: a payment.
pub(super) mod history {
    use super::{Long, Number, Text};

    pub(in super::super) const CUSTOMER: Number = Number::new(0);
    pub(in super::super) const CUSTOMER_DISTRICT: Number = Number::new(CUSTOMER.end());
    pub(in super::super) const CUSTOMER_WAREHOUSE: Number = Number::new(CUSTOMER_DISTRICT.end());
    pub(in super::super) const DISTRICT: Number = Number::new(CUSTOMER_WAREHOUSE.end());
    pub(in super::super) const WAREHOUSE: Number = Number::new(DISTRICT.end());
    pub(in super::super) const DATE: Long = Long::new(WAREHOUSE.end());
    pub(in super::super) const AMOUNT: Long = Long::new(DATE.end());
    pub(in super::super) const DATA: Text = Text::new(AMOUNT.end(), 24);
    pub(in super::super) const BYTES: usize = DATA.end();
}

/// Columns of an order.
pub(super) mod order {
    use super::{Long, Number};

    pub(in super::super) const CUSTOMER: Number = Number::new(0);
    pub(in super::super) const ENTERED: Long = Long::new(CUSTOMER.end());
    /// 0 until the order is delivered.
    pub(in super::super) const CARRIER: Number = Number::new(ENTERED.end());
    pub(in super::super) const LINES: Number = Number::new(CARRIER.end());
    pub(in super::super) const ALL_LOCAL: Number = Number::new(LINES.end());
    pub(in super::super) const BYTES: usize = ALL_LOCAL.end();
}

/// Columns of an order line.
pub(super) mod order_line {
    use super::{Long, Number, Text};

    pub(in super::super) const ITEM: Number = Number::new(0);
    pub(in super::super) const SUPPLIER: Number = Number::new(ITEM.end());
    /// 0 until the order is delivered.
    pub(in super::super) const DELIVERED: Long = Long::new(SUPPLIER.end());
    pub(in super::super) const QUANTITY: Number = Number::new(DELIVERED.end());
    pub(in super::super) const AMOUNT: Long = Long::new(QUANTITY.end());
    pub(in super::super) const DISTRICT_INFO: Text = Text::new(AMOUNT.end(), 24);
    pub(in super::super) const BYTES: usize = DISTRICT_INFO.end();
}

/// Columns of an item.
pub(super) mod item {
    use super::{Long, Number, Text};

    pub(in super::super) const IMAGE: Number = Number::new(0);
    pub(in super::super) const NAME: Text = Text::new(IMAGE.end(), 24);
    pub(in super::super) const PRICE: Long = Long::new(NAME.end());
    pub(in super::super) const DATA: Text = Text::new(PRICE.end(), 50);
    pub(in super::super) const BYTES: usize = DATA.end();
}

/// Columns of the stock of an item in a warehouse.
pub(super) mod stock {
    use super::{Long, Number, Text};

    pub(in super::super) const QUANTITY: Number = Number::new(0);
    pub(in super::super) const YTD: Long = Long::new(QUANTITY.end());
    pub(in super::super) const ORDERS: Number = Number::new(YTD.end());
    pub(in super::super) const REMOTE: Number = Number::new(ORDERS.end());
    const INFO_BYTES: usize = 24;
    const INFOS_AT: usize = REMOTE.end();
    const INFOS_END: usize = INFOS_AT + 10 * (2 + INFO_BYTES);
    pub(in super::super) const DATA: Text = Text::new(INFOS_END, 50);
    pub(in super::super) const BYTES: usize = DATA.end();

    /// Returns the column with the text for order lines of a district, 1 to 10.
    pub(in super::super) const fn district_info(district: u32) -> Text {
        Text::new(INFOS_AT + (district as usize - 1) * (2 + INFO_BYTES), INFO_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_do_not_overlap() {
        let mut row = vec![0xaa; stock::BYTES];
        stock::QUANTITY.set(&mut row, u32::MAX);
        stock::YTD.set(&mut row, -5);
        for district in 1..=10 {
            let text = [b'a' + u8::try_from(district).expect("small"); 24];
            stock::district_info(district).set(&mut row, &text);
        }
        stock::DATA.set(&mut row, b"data");
        assert_eq!((stock::QUANTITY.get(&row), stock::YTD.get(&row)), (u32::MAX, -5));
        for district in 1..=10 {
            let text = [b'a' + u8::try_from(district).expect("small"); 24];
            assert_eq!(stock::district_info(district).get(&row), text);
        }
        assert_eq!(stock::DATA.get(&row), b"data");
        assert_eq!(stock::ORDERS.add(&mut row, 2), 0xaaaa_aaaa);
        assert_eq!(stock::ORDERS.get(&row), 0xaaaa_aaac);
    }

    #[test]
    fn text_keeps_to_its_column() {
        let column = Text::new(1, 5);
        let mut row = [9; 9];
        column.set(&mut row, b"abcdefgh");
        assert_eq!((column.get(&row), row[0], row[8]), (b"abcde".as_slice(), 9, 9));
        column.set(&mut row, b"ab");
        column.prepend(&mut row, b"xy");
        assert_eq!(column.get(&row), b"xyab");
        column.prepend(&mut row, b"123");
        assert_eq!((column.get(&row), row[8]), (b"123xy".as_slice(), 9));
        column.prepend(&mut row, b"longer");
        assert_eq!((column.get(&row), row[8]), (b"longe".as_slice(), 9));
    }
}
