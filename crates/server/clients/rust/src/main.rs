//! Checks of sqlx as a client: binary values, prepared statements, rows as structures, streams,
//! transactions with savepoints, a pool, COPY, and errors.

#![forbid(unsafe_code)]

use std::env;
use std::future::Future;
use std::io::{Write as _, stdout};
use std::process::ExitCode;
use std::str::FromStr as _;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use futures_util::TryStreamExt as _;
use rust_decimal::Decimal;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow, PgSslMode};
use sqlx::{
    Column as _, Connection as _, Executor as _, FromRow, Row as _, Statement as _, TypeInfo as _,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Checked = Result<(), Failure>;

/// A row of the table that the checks create.
#[derive(Debug, PartialEq)]
struct Point {
    id: i64,
    name: Option<String>,
    x: f64,
}

impl FromRow<'_, PgRow> for Point {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: row.try_get("id")?, name: row.try_get("name")?, x: row.try_get("x")? })
    }
}

fn variable(name: &str, otherwise: &str) -> String {
    env::var(name).ok().filter(|value| !value.is_empty()).unwrap_or_else(|| otherwise.to_owned())
}

fn options() -> Result<PgConnectOptions, Failure> {
    let options = PgConnectOptions::new_without_pgpass()
        .host(&variable("TERRACE_HOST", "127.0.0.1"))
        .port(variable("TERRACE_PORT", "5432").parse()?)
        .username(&variable("TERRACE_USER", "admin"))
        .password(&variable("TERRACE_PASSWORD", ""))
        .database(&variable("TERRACE_DATABASE", "main"))
        .application_name("sqlx client");
    // The server under test signs its own certificate, which rustls does not verify.
    let mode = PgSslMode::from_str(&variable("TERRACE_SSLMODE", "require"))?;
    Ok(options.ssl_mode(mode))
}

async fn connect() -> Result<PgConnection, Failure> {
    Ok(PgConnection::connect_with(&options()?).await?)
}

/// Fails unless two values are equal.
macro_rules! same {
    ($found:expr, $expected:expr) => {{
        let (found, expected) = (&$found, &$expected);
        if found != expected {
            return Err(format!("{}: {found:?} is not {expected:?}", line!()).into());
        }
    }};
}

/// Returns the SQLSTATE of an error from the server.
fn state<T>(result: Result<T, sqlx::Error>) -> String {
    let Err(error) = result else { return "no error".to_owned() };
    let code = error.as_database_error().and_then(|error| error.code().map(|it| it.to_string()));
    code.unwrap_or_else(|| error.to_string())
}

async fn login() -> Checked {
    let mut connection = connect().await?;
    connection.ping().await?;
    let row = sqlx::query("SELECT current_user, current_setting('application_name')");
    let row = row.fetch_one(&mut connection).await?;
    same!(row.try_get_unchecked::<String, _>(0)?, variable("TERRACE_USER", "admin"));
    same!(row.try_get::<String, _>(1)?, "sqlx client");
    connection.close().await?;
    if !variable("TERRACE_PASSWORD", "").is_empty() {
        let refused = PgConnection::connect_with(&options()?.password("wrong")).await;
        same!(state(refused), "28P01");
    }
    Ok(())
}

async fn values() -> Checked {
    let mut connection = connect().await?;
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("a day")?;
    let moment: NaiveDateTime = day.and_hms_micro_opt(12, 34, 56, 789).ok_or("a time")?;
    let instant: DateTime<Utc> = moment.and_utc();
    let number = Decimal::new(12_500, 3);
    let row = sqlx::query(
        "SELECT $1::smallint, $2::integer, $3::bigint, $4::real, $5::double precision, \
         $6::boolean, $7::text, $8::bytea, $9::numeric(8, 3), $10::date, $11::timestamp, \
         $12::timestamptz, $13::bigint[], $14::text[], $15::text",
    );
    let row = row.bind(7_i16).bind(-8_i32).bind(1_i64 << 40).bind(0.5_f32).bind(0.1_f64);
    let row = row.bind(true).bind("it's \u{2602}").bind(vec![0_u8, 255]).bind(number);
    let row = row.bind(day).bind(moment).bind(instant).bind(vec![1_i64, 2, 3]);
    let row = row.bind(vec!["a", "b,c"]).bind(None::<String>);
    let row = row.fetch_one(&mut connection).await?;
    same!(row.try_get::<i16, _>(0)?, 7);
    same!(row.try_get::<i32, _>(1)?, -8);
    same!(row.try_get::<i64, _>(2)?, 1 << 40);
    same!(row.try_get::<f32, _>(3)?, 0.5);
    same!(row.try_get::<f64, _>(4)?, 0.1);
    same!(row.try_get::<bool, _>(5)?, true);
    same!(row.try_get::<String, _>(6)?, "it's \u{2602}");
    same!(row.try_get::<Vec<u8>, _>(7)?, [0, 255]);
    same!(row.try_get::<Decimal, _>(8)?, number);
    same!(row.try_get::<NaiveDate, _>(9)?, day);
    same!(row.try_get::<NaiveDateTime, _>(10)?, moment);
    same!(row.try_get::<DateTime<Utc>, _>(11)?, instant);
    same!(row.try_get::<Vec<i64>, _>(12)?, [1, 2, 3]);
    same!(row.try_get::<Vec<String>, _>(13)?, ["a", "b,c"]);
    same!(row.try_get::<Option<String>, _>(14)?, None);
    let types: Vec<_> = row.columns().iter().map(|column| column.type_info().name()).collect();
    same!(types[..5], ["INT2", "INT4", "INT8", "FLOAT4", "FLOAT8"]);
    same!(types[5..9], ["BOOL", "TEXT", "BYTEA", "NUMERIC"]);
    same!(types[9..12], ["DATE", "TIMESTAMP", "TIMESTAMPTZ"]);
    Ok(())
}

async fn prepared_statements() -> Checked {
    let mut connection = connect().await?;
    let statement = connection.prepare("SELECT 1::bigint AS a, $1::text AS b").await?;
    let names: Vec<_> = statement.columns().iter().map(|column| column.name()).collect();
    same!(names, ["a", "b"]);
    let row = statement.query().bind("text").fetch_one(&mut connection).await?;
    same!((row.try_get::<i64, _>("a")?, row.try_get::<&str, _>("b")?), (1, "text"));
    for n in 0..300_i64 {
        // Different texts evict others from the statement cache.
        let text = format!("SELECT $1::bigint + {}", n % 150);
        let sum: i64 = sqlx::query_scalar(&text).bind(n).fetch_one(&mut connection).await?;
        same!(sum, n + n % 150);
    }
    connection.clear_cached_statements().await?;
    let none = sqlx::query("SELECT 1::bigint WHERE $1::boolean").bind(false);
    same!(none.fetch_optional(&mut connection).await?.is_none(), true);
    Ok(())
}

async fn structures_and_streams() -> Checked {
    let mut connection = connect().await?;
    connection.execute("DROP TABLE IF EXISTS sqlx_points").await?;
    let made = "CREATE TABLE sqlx_points (id BIGINT, name TEXT, x DOUBLE PRECISION)";
    connection.execute(made).await?;
    for (id, name) in [(1_i64, Some("one")), (2, None)] {
        let insert = sqlx::query("INSERT INTO sqlx_points VALUES ($1::bigint, $2::text, $3)");
        let inserted = insert.bind(id).bind(name).bind(0.5_f64).execute(&mut connection).await?;
        same!(inserted.rows_affected(), 1);
    }
    let points = "SELECT id, name, x FROM sqlx_points ORDER BY id";
    let points: Vec<Point> = sqlx::query_as(points).fetch_all(&mut connection).await?;
    let expected = [
        Point { id: 1, name: Some("one".to_owned()), x: 0.5 },
        Point { id: 2, name: None, x: 0.5 },
    ];
    same!(points, expected);
    let pair: (i64, Option<String>) =
        sqlx::query_as("SELECT id, name FROM sqlx_points WHERE id = $1::bigint")
            .bind(2_i64)
            .fetch_one(&mut connection)
            .await?;
    same!(pair, (2, None));
    let text = "SELECT i::bigint FROM generate_series(1, 100000) AS s(i)";
    let mut rows = sqlx::query_scalar::<_, i64>(text).fetch(&mut connection);
    let (mut count, mut sum) = (0_i64, 0_i64);
    while let Some(number) = rows.try_next().await? {
        (count, sum) = (count + 1, sum + number);
    }
    drop(rows);
    same!((count, sum), (100_000, 5_000_050_000));
    // The next statement reads an abandoned stream to its end.
    let mut rows = sqlx::query_scalar::<_, i64>(text).fetch(&mut connection);
    same!(rows.try_next().await?.is_some(), true);
    drop(rows);
    connection.ping().await?;
    Ok(())
}

async fn transactions() -> Checked {
    let mut connection = connect().await?;
    connection.execute("DROP TABLE IF EXISTS sqlx_steps").await?;
    connection.execute("CREATE TABLE sqlx_steps (n BIGINT)").await?;
    let count = "SELECT count(*) FROM sqlx_steps";
    let mut transaction = connection.begin().await?;
    transaction.execute("INSERT INTO sqlx_steps VALUES (1)").await?;
    let mut inner = transaction.begin().await?;
    inner.execute("INSERT INTO sqlx_steps VALUES (2)").await?;
    inner.rollback().await?;
    let mut inner = transaction.begin().await?;
    inner.execute("INSERT INTO sqlx_steps VALUES (3)").await?;
    let failed = inner.execute("SELECT nothing").await;
    same!(state(failed), "42703");
    same!(state(inner.execute("SELECT 1").await), "25P02");
    inner.rollback().await?;
    let mut inner = transaction.begin().await?;
    inner.execute("INSERT INTO sqlx_steps VALUES (4)").await?;
    inner.commit().await?;
    transaction.commit().await?;
    let steps = "SELECT n FROM sqlx_steps ORDER BY n";
    let steps: Vec<i64> = sqlx::query_scalar(steps).fetch_all(&mut connection).await?;
    same!(steps, [1, 4]);
    let mut transaction = connection.begin().await?;
    transaction.execute("DELETE FROM sqlx_steps").await?;
    // An abandoned transaction is rolled back.
    drop(transaction);
    let left: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await?;
    same!(left, 2);
    Ok(())
}

async fn pool() -> Checked {
    let pool: PgPool = PgPoolOptions::new()
        .max_connections(4)
        .after_connect(|connection, _| {
            Box::pin(async move { connection.execute("SET TIME ZONE 'UTC'").await.map(drop) })
        })
        .connect_with(options()?)
        .await?;
    let tasks: Vec<_> = (0..32_i64)
        .map(|n| {
            let pool = pool.clone();
            tokio::spawn(async move {
                sqlx::query_scalar::<_, i64>("SELECT $1::bigint * 2").bind(n).fetch_one(&pool).await
            })
        })
        .collect();
    for (task, n) in tasks.into_iter().zip(0_i64..) {
        same!(task.await??, 2 * n);
    }
    same!(pool.size() <= 4, true);
    pool.close().await;
    Ok(())
}

async fn copies() -> Checked {
    let mut connection = connect().await?;
    connection.execute("DROP TABLE IF EXISTS sqlx_copied").await?;
    connection.execute("CREATE TABLE sqlx_copied (id BIGINT, name TEXT)").await?;
    let mut copy = connection.copy_in_raw("COPY sqlx_copied FROM STDIN (FORMAT csv)").await?;
    for n in 0..1000 {
        let lines: String = (0..10).map(|i| format!("{},\"row {n}, {i}\"\n", n * 10 + i)).collect();
        copy.send(lines.into_bytes()).await?;
    }
    same!(copy.finish().await?, 10_000);
    let text = "COPY (SELECT id, name FROM sqlx_copied ORDER BY id) TO STDOUT (FORMAT csv)";
    let mut parts = connection.copy_out_raw(text).await?;
    let mut bytes = Vec::new();
    while let Some(part) = parts.try_next().await? {
        bytes.extend_from_slice(&part);
    }
    drop(parts);
    let text = String::from_utf8(bytes)?;
    same!(text.lines().count(), 10_000);
    same!(text.lines().last(), Some("9999,\"row 999, 9\""));
    let mut copy = connection.copy_in_raw("COPY sqlx_copied FROM STDIN").await?;
    copy.send("1\tone\n".as_bytes()).await?;
    copy.abort("changed my mind").await?;
    let mut copy = connection.copy_in_raw("COPY sqlx_copied FROM STDIN").await?;
    copy.send("one\t1\n".as_bytes()).await?;
    same!(state(copy.finish().await), "22P02");
    let count = "SELECT count(*) FROM sqlx_copied";
    let count: i64 = sqlx::query_scalar(count).fetch_one(&mut connection).await?;
    same!(count, 10_000);
    Ok(())
}

async fn errors() -> Checked {
    let mut connection = connect().await?;
    for (text, expected) in [
        ("SELECT * FROM sqlx_nothing", "42P01"),
        ("SELECT nothing", "42703"),
        ("SELEC 1", "42601"),
        ("SELECT 1::bigint / 0::bigint", "22012"),
        ("SELECT 'x'::bigint", "22P02"),
        ("SELECT count(*) FROM sqlx_points GROUP BY nothing", "42703"),
    ] {
        let failed = sqlx::query(text).fetch_all(&mut connection).await;
        let found = state(failed);
        if found != expected {
            return Err(format!("{text}: {found} is not {expected}").into());
        }
    }
    connection.ping().await?;
    Ok(())
}

/// Runs a check, and prints its outcome as a line of the Test Anything Protocol.
async fn check(number: usize, name: &str, check: impl Future<Output = Checked>) -> bool {
    let outcome = check.await;
    let line = match &outcome {
        Ok(()) => format!("ok {number} - {name}\n"),
        Err(error) => format!("not ok {number} - {name}\n# {error}\n"),
    };
    stdout().write_all(line.as_bytes()).is_ok() && outcome.is_ok()
}

#[tokio::main]
async fn main() -> ExitCode {
    let passed = [
        stdout().write_all(b"1..8\n").is_ok(),
        check(1, "login", login()).await,
        check(2, "values of all types", values()).await,
        check(3, "prepared statements", prepared_statements()).await,
        check(4, "structures and streams", structures_and_streams()).await,
        check(5, "transactions with savepoints", transactions()).await,
        check(6, "a pool", pool()).await,
        check(7, "COPY in and out", copies()).await,
        check(8, "errors with their SQLSTATE", errors()).await,
    ];
    if passed.contains(&false) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
