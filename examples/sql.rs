//! A join and a sort of more data than the budget holds.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use terrace_sql::{Engine, EngineConfig, Output};

/// Budget for cached tables and the working memory of queries.
const DRAM_BYTES: u64 = 32 << 20;

const TABLES: &str = "
    CREATE TABLE trips AS
        SELECT value AS id, value % 1000 AS driver, (value * 7919) % 100000 AS meters
        FROM generate_series(1, 5000000);
    CREATE TABLE drivers AS
        SELECT value AS id, 'driver ' || value AS name FROM generate_series(0, 999);
";

const LONGEST: &str = "
    SELECT name, count(*) AS trips, sum(meters) / 1000 AS km
    FROM trips JOIN drivers ON trips.driver = drivers.id
    GROUP BY name ORDER BY km DESC, name LIMIT 5
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::open(&EngineConfig::new(DRAM_BYTES))?;
    let session = engine.session()?;
    session.sql(TABLES).await?;
    print(&session.sql(LONGEST).await?)?;
    // The sort of all rows needs more than the budget: it spills pages.
    let sorted = "SELECT id FROM trips ORDER BY meters, id OFFSET 4999999";
    print(&session.sql(sorted).await?)?;
    for tier in engine.tiers() {
        println!("{tier:?}");
    }
    drop(session);
    Ok(engine.close()?)
}

fn print(outputs: &[Output]) -> Result<(), Box<dyn Error>> {
    let options = FormatOptions::default();
    for batch in outputs.iter().flat_map(|output| &output.batches) {
        for row in 0..batch.num_rows() {
            for column in batch.columns() {
                print!("{}\t", ArrayFormatter::try_new(column, &options)?.value(row));
            }
            println!();
        }
    }
    Ok(())
}
