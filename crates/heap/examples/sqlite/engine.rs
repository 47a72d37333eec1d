//! The SQLite workload: an in-memory database that is loaded, indexed, joined and changed.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result, params};

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(amount), min(note), max(note) FROM orders",
    "SELECT region, count(*), sum(amount) FROM orders JOIN customers USING (customer)
     GROUP BY region ORDER BY region",
    "SELECT customer, sum(amount) AS spent FROM orders GROUP BY customer
     ORDER BY spent DESC, customer LIMIT 5",
    "SELECT id, note FROM orders WHERE amount = 4711 ORDER BY id LIMIT 5",
    "UPDATE orders SET amount = amount + 1 WHERE id % 7 = 0",
    "DELETE FROM orders WHERE id % 11 = 0",
    "INSERT INTO orders SELECT id + 1000000000, customer, amount * 2, note || ' again'
     FROM orders WHERE id % 13 = 0",
    "SELECT count(*), sum(amount), sum(length(note)) FROM orders",
    "SELECT count(*) FROM orders WHERE amount BETWEEN 5000 AND 5100",
    "PRAGMA quick_check",
];

/// Loads `rows` orders, and returns the answers to the queries.
pub fn run(rows: u64) -> Result<Vec<String>> {
    let mut database = Connection::open_in_memory()?;
    database.execute_batch(
        "PRAGMA temp_store = memory;
         CREATE TABLE customers (customer INTEGER PRIMARY KEY, region TEXT);
         CREATE TABLE orders
             (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);",
    )?;
    load(&mut database, rows)?;
    database.execute_batch("CREATE INDEX by_amount ON orders (amount)")?;
    QUERIES.iter().map(|query| answer(&database, query)).collect()
}

fn load(database: &mut Connection, rows: u64) -> Result<()> {
    let transaction = database.transaction()?;
    {
        let mut customer = transaction.prepare("INSERT INTO customers VALUES (?, ?)")?;
        for id in 0..1000_u64 {
            customer.execute(params![id, format!("region {}", id % 7)])?;
        }
        let mut order = transaction.prepare("INSERT INTO orders VALUES (?, ?, ?, ?)")?;
        let mut seed = 1_u64;
        for id in 0..rows {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (who, amount) = ((seed >> 33) % 1000, (seed >> 40) % 10_000);
            let note = format!("order {id} of customer {who}, {:016x} {:064x}", seed, seed >> 7);
            order.execute(params![id, who, amount, note])?;
        }
    }
    transaction.commit()
}

fn answer(database: &Connection, query: &str) -> Result<String> {
    let mut statement = database.prepare(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut lines = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(text));
        lines.push(values.collect::<Result<Vec<_>>>()?.join(", "));
    }
    Ok(lines.join("\n"))
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    }
}
