//! Kinds of transactions, and their frequencies.

use crate::random::Random;

/// Kinds of transactions, in the order of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Enters an order: 45 % of all transactions.
    NewOrder,
    /// A new order that fails because of an unused item number: 1 % of those.
    RolledBack,
    /// Books a payment: 43 %.
    Payment,
    /// Shows a customer's last order: 4 %.
    OrderStatus,
    /// Delivers one order of each district: 4 %.
    Delivery,
    /// Counts recently sold items whose stock is low: 4 %.
    StockLevel,
}

impl Transaction {
    /// Draws one of the five kinds with the minimum frequencies of the specification (clause
    /// 5.2.3).
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..45 => Transaction::NewOrder,
            45..88 => Transaction::Payment,
            88..92 => Transaction::OrderStatus,
            92..96 => Transaction::Delivery,
            _ => Transaction::StockLevel,
        }
    }
}
