//! Tests of the rules of the ledger, as its consumers observe them.
#![cfg(not(loom))]

use terrace_ledger::{Class, Denied, Ledger, LedgerError, Totals};

#[test]
fn grants_all_or_nothing_and_names_who_asked() {
    let ledger = Ledger::new(100);
    let pages = ledger.register("pages", Class::Pool);
    pages.try_grow(60).expect("it fits");
    let denied = pages.try_grow(41).expect_err("too much");
    assert_eq!(denied, Denied { consumer: "pages".into(), asked: 41, available: 40, budget: 100 });
    assert_eq!(
        denied.to_string(),
        "`pages` asked for 41 bytes of DRAM, but 40 of the budget of 100 bytes are free"
    );
    assert_eq!((pages.held(), ledger.granted(), ledger.available()), (60, 60, 40));
}

#[test]
fn a_dropped_consumer_gives_everything_back() {
    let ledger = Ledger::new(100);
    let query = ledger.register("query 1", Class::Query);
    query.grow_or_owe(150);
    assert_eq!(ledger.consumers().len(), 1);
    drop(query);
    let empty = Totals { budget: 100, granted: 0, debt: 0, available: 100 };
    assert_eq!(ledger.totals(), empty);
    assert!(ledger.consumers().is_empty());
}

#[test]
fn debt_stops_grants_until_it_is_paid() {
    let ledger = Ledger::new(100);
    let query = ledger.register("query 1", Class::Query);
    query.grow_or_owe(130);
    assert_eq!((query.held(), query.debt(), ledger.debt()), (130, 30, 30));
    assert_eq!(query.try_grow(1).expect_err("too much").available, 0);
    query.shrink(10);
    assert_eq!((query.held(), query.debt()), (120, 20));
    query.shrink(21);
    assert_eq!((query.held(), query.debt(), ledger.available()), (99, 0, 1));
}

#[test]
fn own_debt_is_paid_before_that_of_others() {
    let ledger = Ledger::new(0);
    let older = ledger.register("older", Class::Query);
    let younger = ledger.register("younger", Class::Query);
    older.grow_or_owe(10);
    younger.grow_or_owe(10);
    younger.shrink(6);
    assert_eq!((older.debt(), younger.debt()), (10, 4));
}

#[test]
fn whoever_gives_back_pays_the_debt_of_others() {
    let ledger = Ledger::new(100);
    let pages = ledger.register("pages", Class::Pool);
    let query = ledger.register("query 1", Class::Query);
    pages.try_grow(100).expect("it fits");
    query.grow_or_owe(40);
    assert_eq!((query.debt(), pages.debt()), (40, 0));
    pages.shrink(50);
    assert_eq!((query.debt(), query.held()), (0, 40));
    let totals = Totals { budget: 100, granted: 90, debt: 0, available: 10 };
    assert_eq!(ledger.totals(), totals);
}

#[test]
fn the_budget_never_drops_below_what_is_held() {
    let ledger = Ledger::new(100);
    let pages = ledger.register("pages", Class::Pool);
    pages.try_grow(60).expect("it fits");
    let refused = ledger.set_budget(59).expect_err("too much");
    assert_eq!(refused, LedgerError::BelowHeld { asked: 59, held: 60 });
    assert_eq!(ledger.budget(), 100);
    ledger.set_budget(60).expect("it covers what is held");
    assert_eq!((ledger.available(), pages.try_grow(1).expect_err("too much").budget), (0, 60));
    assert!(matches!(ledger.set_budget(u64::MAX), Err(LedgerError::AboveLimit { .. })));
}

#[test]
fn a_larger_budget_pays_debt_first() {
    let ledger = Ledger::new(10);
    let heap = ledger.register("heap", Class::Heap);
    heap.grow_or_owe(30);
    assert_eq!(
        ledger.set_budget(5).expect_err("too much"),
        LedgerError::BelowHeld { asked: 5, held: 30 }
    );
    ledger.set_budget(25).expect("it covers what is held");
    assert_eq!((heap.debt(), ledger.debt(), ledger.available()), (5, 5, 0));
    ledger.set_budget(40).expect("it covers what is held");
    assert_eq!((heap.debt(), ledger.debt(), ledger.available()), (0, 0, 10));
}

#[test]
fn elastic_consumers_share_what_the_others_leave() {
    let ledger = Ledger::new(100);
    let objects = ledger.register("objects", Class::Objects);
    objects.try_grow(40).expect("it fits");
    let pages = ledger.register("pages", Class::Pool);
    assert_eq!(pages.fair_share(), 60);
    let query = ledger.register("query 1", Class::Query);
    assert_eq!((pages.fair_share(), query.fair_share(), objects.fair_share()), (30, 30, 40));
    drop(objects);
    assert_eq!(pages.fair_share(), 50);
    drop(query);
    assert_eq!(pages.fair_share(), 100);
}

#[test]
fn the_peak_stays() {
    let ledger = Ledger::new(100);
    let query = ledger.register("query 1", Class::Query);
    query.try_grow(70).expect("it fits");
    query.shrink(50);
    query.try_grow(10).expect("it fits");
    assert_eq!((query.peak(), query.held()), (70, 30));
}

#[test]
fn consumers_are_listed_in_the_order_of_registration() {
    let ledger = Ledger::new(100);
    let kept: Vec<_> = ["a", "b", "c"].map(|name| ledger.register(name, Class::Other)).into();
    kept[1].try_grow(7).expect("it fits");
    let listed: Vec<_> =
        ledger.consumers().into_iter().map(|c| (c.name.to_string(), c.held_bytes)).collect();
    assert_eq!(listed, [("a".to_owned(), 0), ("b".to_owned(), 7), ("c".to_owned(), 0)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "`query 1` gave back more than it held")]
fn giving_back_too_much_is_caught() {
    Ledger::new(100).register("query 1", Class::Query).shrink(1);
}

#[test]
#[cfg(not(debug_assertions))]
fn giving_back_too_much_changes_nothing() {
    let ledger = Ledger::new(100);
    ledger.register("query 1", Class::Query).shrink(1);
    assert_eq!(ledger.available(), 100);
}
