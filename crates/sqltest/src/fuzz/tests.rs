//! Canaries: the fuzzer must find defects that a test injects.

use super::*;
use cell::Cell;
use pair::Rows;

/// Drops a row of every result of an outer join that has three or more rows. Queries with DISTINCT
/// ON are spared: shrinking cannot remove their keys, which make the result deterministic.
fn loses_a_row(statement: &str, rows: &mut Rows) {
    let is_short = !statement.contains("DISTINCT ON");
    if statement.contains("LEFT JOIN") && is_short && rows.len() > 2 {
        rows.pop();
    }
}

/// Adds one to the first whole number of every grouped result.
fn miscounts(statement: &str, rows: &mut Rows) {
    let cells = rows.iter_mut().flatten();
    let mut numbers = cells.filter_map(|cell| match cell {
        Cell::Exact(digits, 0) => Some(digits),
        _ => None,
    });
    if statement.contains("GROUP BY")
        && let Some(first) = numbers.next()
    {
        *first += 1;
    }
}

/// Runs cases against DataFusion until one fails because of `sabotage`; returns the script of the
/// shrunk case.
async fn caught(sabotage: pair::Sabotage) -> String {
    for group in 0..40 {
        if is_large(group) {
            continue;
        }
        let tables = tables(1, group);
        let setup = setup(1, group * GROUP_CASES, &tables);
        let peer = Peer::Plain(Box::new(Plain::new().expect("a session")));
        let mut pair = Pair::open(&setup, tables.clone(), peer).await.expect("loaded");
        for number in group * GROUP_CASES..(group + 1) * GROUP_CASES {
            let case = case(1, number, &tables);
            if pair.verdict(&case).await.expect("asked").is_failure() {
                continue;
            }
            pair.sabotage = Some(sabotage);
            let verdict = pair.verdict(&case).await.expect("asked");
            if verdict.is_failure() {
                let limit = Duration::from_secs(20);
                let shrunk = shrink::shrink(&mut pair, case, verdict, limit).await.expect("shrunk");
                let dialect = pair.peer_dialect();
                return script::script(
                    &setup,
                    &shrunk.tables,
                    &shrunk.case,
                    &shrunk.verdict,
                    dialect,
                );
            }
            pair.sabotage = None;
        }
    }
    panic!("no case was caught");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_row_is_found_and_shrunk() {
    let script = caught(loses_a_row).await;
    assert!(script.contains("LEFT JOIN") && script.contains("-- the peer: "), "{script}");
    let statement = script.lines().rfind(|line| line.starts_with("SELECT")).unwrap_or_default();
    assert!(statement.len() < 160, "{script}");
    assert!(!statement.contains("WHERE"), "{script}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_count_is_found_and_shrunk() {
    let script = caught(miscounts).await;
    assert!(script.contains("GROUP BY"), "{script}");
}

#[test]
fn a_case_follows_from_its_numbers() {
    let texts = || {
        let tables = tables(7, 3);
        let cases = (0..100).map(|number| case(7, number, &tables));
        let texts = cases.flat_map(|case| case.statements);
        texts.map(|it| it.render(Dialect::Duck)).collect::<Vec<_>>()
    };
    assert_eq!(texts(), texts());
    assert!(texts().iter().any(|text| text.contains("JOIN")));
}
