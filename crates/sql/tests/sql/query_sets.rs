//! Set operations and joins with nulls, compared with a model that visits every pair of rows.

use std::collections::BTreeMap;

use crate::common::{MIB, engine, show, try_show};
use terrace_sql::Session;
use terrace_testkit::{Rng, soak_rounds, with_seed};

type Value = Option<i64>;
type Row = (Value, Value);

fn session(dram_bytes: u64) -> Session {
    engine(dram_bytes).session().expect("session")
}

/// Random rows with few distinct values, some of them null.
fn rows(rng: &mut Rng, most: usize, nulls: bool) -> Vec<Row> {
    let mut value = || {
        let value = i64::try_from(rng.below(4)).expect("small");
        (!nulls || !rng.one_in(4)).then_some(value)
    };
    let rows: Vec<Row> = (0..most).map(|_| (value(), value())).collect();
    let kept = rng.index(most + 1);
    rows.into_iter().take(kept).collect()
}

fn text(value: Value) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

async fn table(session: &Session, name: &str, rows: &[Row]) {
    let columns = "id BIGINT NOT NULL, a BIGINT, b BIGINT";
    show(session, &format!("CREATE OR REPLACE TABLE {name} ({columns})")).await;
    if rows.is_empty() {
        return;
    }
    let rows = rows.iter().enumerate();
    let rows = rows.map(|(id, (a, b))| format!("({id}, {}, {})", text(*a), text(*b)));
    let rows = rows.collect::<Vec<_>>().join(", ");
    show(session, &format!("INSERT INTO {name} VALUES {rows}")).await;
}

/// SQL's `a = b`.
fn equal(a: Value, b: Value) -> Option<bool> {
    Some(a? == b?)
}

/// True if SQL's `a NOT IN (values)` is true.
fn not_in(a: Value, mut values: impl Iterator<Item = Value>) -> bool {
    values.all(|value| equal(a, value) == Some(false))
}

fn sorted(mut lines: Vec<String>) -> String {
    lines.sort();
    lines.join("\n")
}

fn sorted_text(text: &str) -> String {
    sorted(text.lines().map(str::to_owned).collect())
}

fn bag(rows: &[Row]) -> BTreeMap<Row, usize> {
    let mut bag = BTreeMap::new();
    rows.iter().for_each(|row| *bag.entry(*row).or_insert(0) += 1);
    bag
}

async fn check_sets(session: &Session, left: &[Row], right: &[Row]) {
    let (l, r) = (bag(left), bag(right));
    type Keeps = fn(usize, usize) -> usize;
    let operations: [(&str, Keeps); 4] = [
        ("EXCEPT ALL", |m, n| m.saturating_sub(n)),
        ("INTERSECT ALL", |m, n| m.min(n)),
        ("EXCEPT", |m, n| usize::from(m > 0 && n == 0)),
        ("INTERSECT", |m, n| usize::from(m > 0 && n > 0)),
    ];
    for (operation, keeps) in operations {
        let mut lines = Vec::new();
        for ((a, b), m) in &l {
            let count = keeps(*m, r.get(&(*a, *b)).copied().unwrap_or(0));
            let cell = |value: &Value| value.map_or(String::new(), |value| value.to_string());
            lines.extend(std::iter::repeat_n(format!("{} {}", cell(a), cell(b)), count));
        }
        let query = format!("SELECT a, b FROM l {operation} SELECT a, b FROM r");
        let found = show(session, &query).await;
        assert_eq!(sorted_text(&found), sorted(lines), "{operation}\n{left:?}\n{right:?}");
    }
}

async fn check_not_in(session: &Session, left: &[Row], right: &[Row]) {
    type Model = fn(&Row, &[Row]) -> bool;
    let queries: [(&str, Model); 6] = [
        ("a NOT IN (SELECT a FROM r)", |l, r| not_in(l.0, r.iter().map(|r| r.0))),
        ("a + 1 NOT IN (SELECT b FROM r WHERE b > 0)", |l, r| {
            let right = r.iter().map(|r| r.1).filter(|b| b.is_some_and(|b| b > 0));
            not_in(l.0.map(|a| a + 1), right)
        }),
        ("a NOT IN (SELECT a FROM r WHERE r.b = l.b)", |l, r| {
            not_in(l.0, r.iter().filter(|r| equal(r.1, l.1) == Some(true)).map(|r| r.0))
        }),
        ("a NOT IN (SELECT a FROM r WHERE r.b < l.b)", |l, r| {
            let less = |r: &&Row| r.1.zip(l.1).is_some_and(|(r, l)| r < l);
            not_in(l.0, r.iter().filter(less).map(|r| r.0))
        }),
        ("2 NOT IN (SELECT a FROM r)", |_, r| not_in(Some(2), r.iter().map(|r| r.0))),
        ("a NOT IN (SELECT a FROM r) AND b = 1", |l, r| {
            l.1 == Some(1) && not_in(l.0, r.iter().map(|r| r.0))
        }),
    ];
    for (condition, model) in queries {
        let kept = left.iter().enumerate().filter(|(_, row)| model(row, right));
        let expected = sorted(kept.map(|(id, _)| id.to_string()).collect());
        let query = format!("SELECT id FROM l WHERE {condition}");
        let found = show(session, &query).await;
        assert_eq!(sorted_text(&found), expected, "{condition}\n{left:?}\n{right:?}");
    }
}

async fn check_null_equality(session: &Session, rows: &[Vec<Row>; 3]) {
    let same = |a: Value, b: Value| a == b;
    let equals = |a: Value, b: Value| equal(a, b) == Some(true);
    type Compares<'a> = &'a dyn Fn(Value, Value) -> bool;
    let [x, y, z] = rows;
    let plain: (&str, Compares<'_>) = ("=", &equals);
    let nulls: (&str, Compares<'_>) = ("IS NOT DISTINCT FROM", &same);
    for (first, second) in [(plain, nulls), (nulls, plain), (nulls, nulls), (plain, plain)] {
        let mut count = 0;
        for x in x {
            for y in y.iter().filter(|y| (first.1)(x.0, y.0)) {
                count += z.iter().filter(|z| (second.1)(y.1, z.1)).count();
            }
        }
        for query in [
            format!("l JOIN r ON l.a {} r.a JOIN z ON r.b {} z.b", first.0, second.0),
            format!("l, r, z WHERE (l.a {} r.a) AND (r.b {} z.b)", first.0, second.0),
            format!("l JOIN r ON l.a {} r.a, z WHERE r.b {} z.b", first.0, second.0),
            format!("z JOIN (l JOIN r ON l.a {} r.a) ON r.b {} z.b", first.0, second.0),
        ] {
            let query = format!("SELECT count(*) FROM {query}");
            let found = show(session, &query).await;
            assert_eq!(found, count.to_string(), "{query}\n{rows:?}");
        }
    }
}

#[test]
fn rows_with_nulls_are_joined_as_a_model_does() {
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    with_seed(|seed| {
        let mut rng = Rng::new(seed);
        runtime.block_on(async {
            let session = session(64 * MIB);
            for _ in 0..soak_rounds(4) {
                let nulls = [rng.one_in(2), rng.one_in(2), true];
                let rows = nulls.map(|nulls| rows(&mut rng, 12, nulls));
                for (name, rows) in ["l", "r", "z"].into_iter().zip(&rows) {
                    table(&session, name, rows).await;
                }
                check_sets(&session, &rows[0], &rows[1]).await;
                check_not_in(&session, &rows[0], &rows[1]).await;
                check_null_equality(&session, &rows).await;
            }
        });
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_cases_of_not_in_and_set_operations() {
    let session = session(64 * MIB);
    for (query, expected) in [
        ("SELECT 1 WHERE 1 NOT IN (SELECT NULL)", ""),
        ("SELECT 1 WHERE 1 NOT IN (SELECT 1 WHERE false)", "1"),
        ("SELECT 1 WHERE NULL NOT IN (SELECT 1 WHERE false)", "1"),
        ("SELECT * FROM (VALUES (1), (1), (2)) t(a) EXCEPT ALL SELECT 1", "1\n2"),
        ("SELECT * FROM (VALUES (1), (1), (2)) t(a) INTERSECT ALL VALUES (1)", "1"),
        ("SELECT CAST('0' AS DOUBLE) EXCEPT ALL SELECT CAST('-0' AS DOUBLE)", ""),
        ("WITH t AS (SELECT 1 UNION ALL SELECT 1) SELECT * FROM t EXCEPT ALL SELECT * FROM t", ""),
    ] {
        let found = show(&session, query).await;
        assert_eq!(sorted_text(&found), expected, "{query}");
    }
    show(&session, "CREATE TABLE t AS VALUES (1), (1), (2)").await;
    show(&session, "CREATE VIEW v AS SELECT * FROM t EXCEPT ALL SELECT 1").await;
    assert_eq!(sorted_text(&show(&session, "SELECT * FROM v").await), "1\n2");
    show(&session, "PREPARE p AS SELECT * FROM t EXCEPT ALL SELECT $1").await;
    assert_eq!(sorted_text(&show(&session, "EXECUTE p(1)").await), "1\n2");
    show(&session, "CREATE TABLE u AS SELECT * FROM t INTERSECT ALL VALUES (1), (1), (1)").await;
    assert_eq!(show(&session, "SELECT * FROM u").await, "1\n1");
    let in_subquery =
        "SELECT count(*) FROM t WHERE column1 IN (SELECT * FROM t EXCEPT ALL SELECT 1)";
    assert_eq!(show(&session, in_subquery).await, "3");
}

/// The build side of NOT IN is the whole left table, which is ten times the memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn not_in_of_nullable_columns_leaves_memory() {
    let session = session(32 * MIB);
    let rows = "SELECT CASE WHEN value % 1000 = 0 THEN NULL ELSE value END AS x, \
                'a payload that makes the row wider, ' || value AS p \
                FROM generate_series(1, 400000)";
    show(&session, &format!("CREATE TABLE l AS {rows}")).await;
    show(&session, "CREATE TABLE r AS SELECT x FROM l WHERE x % 2 = 0").await;
    show(&session, "CREATE TABLE n AS SELECT x FROM l WHERE x % 2 = 0 OR x IS NULL").await;
    let count = |table: &str| {
        format!("SELECT count(*), max(p) IS NOT NULL FROM l WHERE x NOT IN (SELECT x FROM {table})")
    };
    let plan = show(&session, &format!("EXPLAIN (FORMAT INDENT) {}", count("r"))).await;
    assert!(plan.contains("PagedHashJoinExec") && plan.contains("null_aware"), "{plan}");
    assert_eq!(show(&session, &count("r")).await, "200000 true");
    assert_eq!(show(&session, &count("n")).await, "0 false");
    assert_eq!(show(&session, &count("r WHERE x < 0")).await, "400000 true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_map_is_a_key_of_a_join() {
    let session = session(64 * MIB);
    let rows = "SELECT value AS id, MAP {'k': value % 10, 'n': value % 2} AS m \
                FROM generate_series(1, 1000)";
    show(&session, &format!("CREATE TABLE t AS {rows}")).await;
    let join = "SELECT count(*) FROM t a JOIN t b ON a.m = b.m WHERE a.id <= 10";
    match try_show(&session, join).await {
        Ok(found) => assert_eq!(found, "1000"),
        Err(error) => panic!("{join}\n{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_operations_name_outer_columns_on_either_side() {
    let engine = engine(64 * MIB);
    let session = engine.session().expect("session");
    show(&session, "CREATE TABLE t AS SELECT 1 AS x; CREATE TABLE u AS SELECT 4 AS y").await;
    for (operation, exists) in
        [("EXCEPT", "1"), ("EXCEPT ALL", "1"), ("INTERSECT", ""), ("INTERSECT ALL", "")]
    {
        let set = format!("((SELECT 4 FROM u) {operation} (SELECT 4 FROM u WHERE u.y <= t.x))");
        for (condition, found) in [
            (format!("3 IN {set}"), ""),
            (format!("4 IN {set}"), exists),
            (format!("EXISTS {set}"), exists),
        ] {
            let query = format!("SELECT x FROM t WHERE {condition}");
            assert_eq!(show(&session, &query).await, found, "{query}");
        }
    }
    let left = "SELECT x FROM t WHERE 4 IN ((SELECT y FROM u WHERE u.y > t.x) EXCEPT (SELECT 9))";
    assert_eq!(show(&session, left).await, "1");
}
