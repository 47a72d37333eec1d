//! Scalar functions that DataFusion lacks, with the values of DuckDB 2.0 and PostgreSQL 15.

mod dates;
mod numbers;
mod postgres;
mod texts;

use terrace_sql::Session;

use crate::common::{MIB, check, engine, show, try_show};

const DRAM: u64 = 64 * MIB;

/// Checks the value of each expression; reports all that differ.
async fn check_values(cases: &[(&str, &str)]) {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let mut wrong = Vec::new();
    for (expression, value) in cases {
        match try_show(&session, &format!("SELECT {expression}")).await {
            Ok(found) if found == *value => {}
            Ok(found) => wrong.push(format!("{expression}: {found:?}, not {value:?}")),
            Err(error) => wrong.push(format!("{expression}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn dates_have_the_values_of_duckdb() {
    check_values(dates::DATES).await;
}

#[tokio::test]
async fn texts_have_the_values_of_duckdb() {
    check_values(texts::TEXTS).await;
}

#[tokio::test]
async fn numbers_have_the_values_of_duckdb() {
    check_values(numbers::NUMBERS).await;
}

#[tokio::test]
async fn functions_of_postgresql_have_its_values() {
    check_values(postgres::POSTGRES).await;
}

/// Creates a table with nulls, empty texts and values on both sides of zero.
async fn table(session: &Session) {
    let table = "CREATE TABLE t (i BIGINT, s VARCHAR, p VARCHAR, d DATE, n DECIMAL(10, 2));
        INSERT INTO t VALUES (1, 'a1b2', '[a-z]', DATE '2024-02-29', 7.50), (2, '', 'x', DATE \
        '1969-12-31', -7.50), (3, NULL, 'x', NULL, NULL), (4, 'xx', NULL, DATE '2000-01-01', \
        0.00)";
    show(session, table).await;
}

/// Columns, and columns beside constants, with rows of DuckDB 2.0 and PostgreSQL 15.
const COLUMNS: &[(&str, &str)] = &[
    ("SELECT md5(s) FROM t WHERE i < 3 ORDER BY i", MD5),
    ("SELECT regexp_extract(s, p) FROM t ORDER BY i", "a\n\n\n"),
    ("SELECT regexp_extract_all(s, '[0-9]') FROM t ORDER BY i", "[1, 2]\n[]\n\n[]"),
    ("SELECT string_split(s, '1') FROM t ORDER BY i", "[a, b2]\n[]\n\n[xx]"),
    ("SELECT date_diff('day', d, DATE '2024-03-01') FROM t ORDER BY i", "1\n19784\n\n8826"),
    (
        "SELECT yearweek(d), dayname(d) FROM t ORDER BY i",
        "202409 Thursday\n197001 Wednesday\n \n199952 Saturday",
    ),
    ("SELECT strftime(d, '%d.%m.%y') FROM t ORDER BY i", "29.02.24\n31.12.69\n\n01.01.00"),
    (
        "SELECT time_bucket(INTERVAL '1 month', d) FROM t ORDER BY i",
        "2024-02-01\n1969-12-01\n\n2000-01-01",
    ),
    (
        "SELECT mod(n, 2), div(n, 2), sign(n) FROM t ORDER BY i",
        "1.50 3 1.0\n-1.50 -3 -1.0\n  \n0.00 0 0.0",
    ),
    ("SELECT mod(7.5, n) FROM t WHERE i < 4 ORDER BY i", "0.00\n0.00\n"),
    ("SELECT if(i > 2, s, 'z'), num_nulls(s, p, d) FROM t ORDER BY i", "z 0\nz 0\n 2\nxx 1"),
    ("SELECT format('%s-%L', s, i) FROM t ORDER BY i", "a1b2-'1'\n-'2'\n-'3'\nxx-'4'"),
    ("SELECT printf('%5.1f|%s', n, s) FROM t ORDER BY i", "  7.5|a1b2\n -7.5|\n\n  0.0|xx"),
    ("SELECT constant_or_null(i, s, p) FROM t ORDER BY i", "1\n2\n\n"),
    ("SELECT constant_or_null(1, s) FROM t ORDER BY i", "1\n1\n\n1"),
    ("SELECT width_bucket(n, -10, 10, 4) FROM t ORDER BY i", "4\n1\n\n3"),
    ("SELECT quote_nullable(s) FROM t ORDER BY i", "'a1b2'\n''\nNULL\n'xx'"),
    ("SELECT extract(century FROM d) FROM t ORDER BY i", "21\n20\n\n20"),
    ("SELECT count(DISTINCT hash(s)) FROM t", "4"),
    ("SELECT count(*) FROM t WHERE regexp_matches(s, '[0-9]')", "1"),
    ("SELECT count(DISTINCT u) FROM (SELECT gen_random_uuid() AS u FROM t)", "4"),
    ("SELECT year(d), count(*) FROM t GROUP BY year(d) ORDER BY 1", "1969 1\n2000 1\n2024 1\n 1"),
    ("SELECT extract(decade FROM d) FROM t GROUP BY 1 ORDER BY 1", "196\n200\n202\n"),
];

const MD5: &str = "f2e49af795161e14acf9d9245473a368\nd41d8cd98f00b204e9800998ecf8427e";

#[tokio::test]
async fn columns_have_a_value_in_each_row() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    table(&session).await;
    check(&session, COLUMNS).await;
}

/// Expressions that fail, and a part of their messages.
const REFUSED: &[(&str, &str)] = &[
    ("date_diff('bogus', DATE '2024-01-01', DATE '2024-01-02')", "no part of a date"),
    ("date_diff('day', TIME '10:00:00', TIME '11:00:00')", "no difference in day"),
    ("make_timestamp(2024, 2, 30, 0, 0, 0)", "cannot make the date 2024-2-30"),
    ("make_timestamp(9223372036854775807, 1, 1, 0, 0, 0)", "cannot make the date"),
    ("make_time(24, 0, 0)", "the last time is"),
    ("make_time(1, 0, 'NaN'::DOUBLE)", "cannot make the time"),
    ("to_years(2147483647)", "out of range"),
    ("to_hours(9223372036854775807)", "out of range"),
    ("to_seconds('NaN'::DOUBLE)", "out of range"),
    ("to_seconds(1e300)", "out of range"),
    ("epoch_ms(9223372036854775807)", "out of range"),
    ("year(make_timestamp(9223372036854775807))", "out of range"),
    ("date_add(TIMESTAMP '2024-01-01 00:00:00', to_days(2147483647))", "out of range"),
    ("time_bucket(INTERVAL '0 days', DATE '2024-01-01')", "above zero"),
    ("time_bucket(INTERVAL '1 month 1 day', DATE '2024-01-01')", "no days and no time besides"),
    ("strftime(DATE '2024-01-01', '%Q')", "unknown field %Q"),
    ("strftime(DATE '2024-01-01', 'x%')", "ends in a percent sign"),
    ("strptime('2024-02-30', '%Y-%m-%d')", "no timestamp in the format"),
    ("justify_hours(make_interval(0, 0, 0, 2147483647, 24))", "out of range"),
    ("regexp_matches('a', '[')", "no regular expression"),
    ("regexp_matches('a', 'a', '?')", "no option"),
    ("regexp_matches('a', '(a{1000}){1000}{1000}')", "no regular expression"),
    ("regexp_extract('a', 'a', -1)", "the number of a group"),
    ("regexp_substr('a', 'a', 0)", "invalid value for parameter \"start\": 0"),
    ("hamming('a', 'ab')", "of one length"),
    ("unhex('6z')", "other characters"),
    ("to_base(-1, 2)", "numbers from zero"),
    ("to_base(1, 37)", "radix from 2 to 36"),
    ("decode('abc', 'hex')", "not in the format hex"),
    ("encode('abc', 'rot13')", "hex, base64 and escape"),
    ("from_base64('YW')", "not base64"),
    ("url_decode('%ff')", "not UTF-8"),
    ("printf('%d')", "0 values follow"),
    ("printf('%d', 'a')", "does not format a text"),
    ("printf('%99999999999d', 1)", "at most 10000"),
    ("format('{')", "has no partner"),
    ("format('{:.99999f}', 1.5)", "at most 10000"),
    ("format('%x', 1)", "no field of format"),
    ("format('%s')", "0 values follow"),
    ("format('%I', NULL)", "no text as an identifier"),
    ("format('%*s', 99999, 'a')", "at most 10000"),
    ("md5(1)", "cast the arguments"),
    ("levenshtein('a')", "levenshtein"),
    ("mod(1, 0)", "division by zero"),
    ("mod(1.5, 0)", "division by zero"),
    ("div((-9223372036854775807) - 1, -1)", "out of range"),
    ("div(1.5, 0)", "division by zero"),
    ("factorial(-1)", "negative number"),
    ("factorial(34)", "38 digits"),
    ("width_bucket(1, 0, 10, 0)", "buckets, not 0"),
    ("width_bucket(1, 5, 5, 3)", "cannot equal"),
    ("width_bucket('NaN'::DOUBLE, 0, 1, 3)", "no NaN"),
    ("if(1, 2, 3)", "boolean"),
    ("error('stop here')", "stop here"),
    ("pg_size_bytes('x')", "no size"),
];

#[tokio::test]
async fn wrong_arguments_are_refused() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let mut wrong = Vec::new();
    for (expression, part) in REFUSED {
        match try_show(&session, &format!("SELECT {expression}")).await {
            Err(error) if error.to_string().contains(part) => {}
            found => wrong.push(format!("{expression}: {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_time_of_a_statement_is_one() {
    let engine = engine(DRAM);
    let session = engine.session().expect("session");
    let cases = [
        ("SELECT statement_timestamp() = transaction_timestamp()", "true"),
        ("SELECT localtimestamp() = statement_timestamp()::TIMESTAMP", "true"),
        ("SELECT clock_timestamp() >= statement_timestamp()", "true"),
        ("SELECT age(current_date), age(current_date + 1)", "0 secs -1 days"),
        ("SELECT age(NULL::TIMESTAMP)", ""),
    ];
    check(&session, &cases).await;
}
