//! Random sequences of operations, compared with a model of plain numbers.
#![cfg(not(loom))]

use proptest::prelude::*;
use terrace_ledger::{Class, Consumer, Ledger, LedgerError, Totals};

const CLASSES: [Class; 6] =
    [Class::Pool, Class::Query, Class::Region, Class::Heap, Class::Objects, Class::Other];

#[derive(Clone, Debug)]
enum Step {
    Register(usize),
    Drop(usize),
    TryGrow(usize, u64),
    GrowOrOwe(usize, u64),
    Shrink(usize, u64),
    SetBudget(u64),
}

/// Single-threaded model of the ledger.
#[derive(Default)]
struct Model {
    budget: u64,
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    class: Class,
    held: u64,
    owed: u64,
    peak: u64,
}

impl Model {
    fn held(&self) -> u64 {
        self.entries.iter().map(|entry| entry.held).sum()
    }

    fn debt(&self) -> u64 {
        self.held().saturating_sub(self.budget)
    }

    fn available(&self) -> u64 {
        self.budget.saturating_sub(self.held())
    }

    fn grow(&mut self, at: usize, bytes: u64) {
        let before = self.debt();
        self.entries[at].held += bytes;
        self.entries[at].peak = self.entries[at].peak.max(self.entries[at].held);
        let after = self.debt();
        self.entries[at].owed += after - before;
    }

    fn shrink(&mut self, at: usize, bytes: u64) {
        let before = self.debt();
        self.entries[at].held -= bytes;
        let mut paid = before - self.debt();
        let own = paid.min(self.entries[at].owed);
        self.entries[at].owed -= own;
        paid -= own;
        self.pay(paid);
    }

    fn set_budget(&mut self, budget: u64) {
        let before = self.debt();
        self.budget = budget;
        let paid = before - self.debt();
        self.pay(paid);
    }

    fn pay(&mut self, mut bytes: u64) {
        for entry in &mut self.entries {
            let paid = entry.owed.min(bytes);
            entry.owed -= paid;
            bytes -= paid;
        }
    }

    fn fair_share(&self, at: usize) -> u64 {
        let (elastic, fixed): (Vec<_>, Vec<_>) =
            self.entries.iter().partition(|entry| entry.class.is_elastic());
        if !self.entries[at].class.is_elastic() {
            return self.entries[at].held;
        }
        let fixed: u64 = fixed.iter().map(|entry| entry.held).sum();
        self.budget.saturating_sub(fixed) / u64::try_from(elastic.len()).expect("few")
    }

    fn totals(&self) -> Totals {
        let (budget, debt, available) = (self.budget, self.debt(), self.available());
        Totals { budget, granted: self.held() - debt, debt, available }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = 0_u64..200;
    prop_oneof![
        1 => (0..CLASSES.len()).prop_map(Step::Register),
        1 => any::<usize>().prop_map(Step::Drop),
        4 => (any::<usize>(), bytes.clone()).prop_map(|(at, n)| Step::TryGrow(at, n)),
        2 => (any::<usize>(), bytes.clone()).prop_map(|(at, n)| Step::GrowOrOwe(at, n)),
        4 => (any::<usize>(), bytes).prop_map(|(at, n)| Step::Shrink(at, n)),
        1 => (0_u64..600).prop_map(Step::SetBudget),
    ]
}

fn apply(step: &Step, ledger: &Ledger, consumers: &mut Vec<Consumer>, model: &mut Model) {
    let slot = |at: usize| at.checked_rem(consumers.len());
    match *step {
        Step::Register(class) => {
            let class = CLASSES[class];
            consumers.push(ledger.register(format!("{class} {}", consumers.len()), class));
            model.entries.push(Entry { class, held: 0, owed: 0, peak: 0 });
        }
        Step::Drop(at) => {
            if let Some(at) = slot(at) {
                drop(consumers.remove(at));
                model.shrink(at, model.entries[at].held);
                model.entries.remove(at);
            }
        }
        Step::TryGrow(at, bytes) => {
            if let Some(at) = slot(at) {
                let granted = consumers[at].try_grow(bytes);
                assert_eq!(granted.is_ok(), bytes <= model.available(), "{granted:?}");
                if granted.is_ok() {
                    model.grow(at, bytes);
                }
            }
        }
        Step::GrowOrOwe(at, bytes) => {
            if let Some(at) = slot(at) {
                consumers[at].grow_or_owe(bytes);
                model.grow(at, bytes);
            }
        }
        Step::Shrink(at, bytes) => {
            if let Some(at) = slot(at) {
                let bytes = bytes.min(model.entries[at].held);
                consumers[at].shrink(bytes);
                model.shrink(at, bytes);
            }
        }
        Step::SetBudget(bytes) => match ledger.set_budget(bytes) {
            Ok(()) => model.set_budget(bytes),
            Err(refused) => {
                let held = model.held();
                assert_eq!(refused, LedgerError::BelowHeld { asked: bytes, held });
                assert!(bytes < model.budget && bytes < held);
            }
        },
    }
}

fn compare(ledger: &Ledger, consumers: &[Consumer], model: &Model) {
    assert_eq!(ledger.totals(), model.totals());
    assert!(ledger.granted() <= ledger.budget());
    assert_eq!(ledger.debt(), consumers.iter().map(Consumer::debt).sum::<u64>());
    for (at, (consumer, entry)) in consumers.iter().zip(&model.entries).enumerate() {
        let info = consumer.info();
        assert_eq!(
            (info.held_bytes, info.debt_bytes, info.peak_bytes, info.fair_share_bytes),
            (entry.held, entry.owed, entry.peak, model.fair_share(at)),
            "consumer {at} of {}",
            consumers.len(),
        );
    }
    let listed: Vec<_> = consumers.iter().map(Consumer::info).collect();
    assert_eq!(ledger.consumers(), listed);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 2 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_ledger_is_the_model(
        budget in 0_u64..600,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let ledger = Ledger::new(budget);
        let mut model = Model { budget, ..Model::default() };
        let mut consumers = Vec::new();
        for step in &steps {
            apply(step, &ledger, &mut consumers, &mut model);
            compare(&ledger, &consumers, &model);
        }
        consumers.clear();
        prop_assert_eq!(ledger.available(), ledger.budget());
    }
}
