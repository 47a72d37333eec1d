//! The ledger: one memory budget, its consumers, and the bytes that each of them holds.
//!
//! One lock protects the list of consumers. [`Consumer::try_grow`] never takes it. It is taken to
//! register, to list, to change the budget, and for every change that begins or ends with debt (see
//! `room`).

use std::sync::PoisonError;

use crate::{
    Class, Consumer, ConsumerInfo, Denied, LedgerError,
    account::Account,
    room::{LIMIT_BYTES, Room, debt_bytes, free_bytes},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering},
};

/// Ledger of one memory budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    state: Arc<State>,
}

/// Totals of a ledger at one moment; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Upper bound of the bytes that may be granted.
    pub budget: u64,
    /// Bytes held and covered by the budget; at most `budget`.
    pub granted: u64,
    /// Bytes held beyond the budget.
    pub debt: u64,
    /// Bytes that can be granted now; zero while there is debt.
    pub available: u64,
}

#[derive(Debug)]
struct State {
    room: Room,
    /// Budget in bytes; written only under the lock.
    budget: AtomicU64,
    /// Number of elastic consumers; written only under the lock.
    elastic_consumers: AtomicU64,
    /// Bytes held by the consumers that are not elastic.
    inelastic_held: AtomicU64,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    accounts: Vec<Arc<Account>>,
    next_id: u64,
}

impl Ledger {
    /// Returns a ledger over `budget_bytes`. A budget above 4 EiB counts as 4 EiB.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Self {
        let budget = budget_bytes.min(LIMIT_BYTES);
        let state = State {
            room: Room::new(budget),
            budget: AtomicU64::new(budget),
            elastic_consumers: AtomicU64::new(0),
            inelastic_held: AtomicU64::new(0),
            registry: Mutex::new(Registry::default()),
        };
        Self { state: Arc::new(state) }
    }

    /// Returns the budget in bytes.
    #[must_use]
    pub fn budget(&self) -> u64 {
        self.state.budget.load(Ordering::Acquire)
    }

    /// Returns the bytes that are held and covered by the budget.
    ///
    /// During a concurrent [`Ledger::set_budget`] the result may belong to either budget;
    /// [`Ledger::totals`] is consistent.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.budget().saturating_sub(self.available())
    }

    /// Returns the debt: the bytes that are held beyond the budget.
    #[must_use]
    pub fn debt(&self) -> u64 {
        debt_bytes(self.state.room.get())
    }

    /// Returns the bytes that [`Consumer::try_grow`] would grant now; zero while there is debt.
    #[must_use]
    pub fn available(&self) -> u64 {
        free_bytes(self.state.room.get())
    }

    /// Returns all totals, consistent with each other. Takes the lock.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let _registry = self.lock();
        let (budget, room) = (self.budget(), self.state.room.get());
        let available = free_bytes(room);
        let granted = budget.saturating_sub(available);
        Totals { budget, granted, debt: debt_bytes(room), available }
    }

    /// Changes the budget. An increase pays debt first.
    ///
    /// # Errors
    /// [`LedgerError::BelowHeld`] if consumers hold more than `bytes`: have them shrink first.
    /// [`LedgerError::AboveLimit`] above 4 EiB. On an error the budget is unchanged.
    pub fn set_budget(&self, bytes: u64) -> Result<(), LedgerError> {
        if bytes > LIMIT_BYTES {
            return Err(LedgerError::AboveLimit { asked: bytes, limit: LIMIT_BYTES });
        }
        let registry = self.lock();
        let now = self.budget();
        if bytes < now {
            self.state.room.take(now - bytes).map_err(|free| {
                let held = now - free + self.debt();
                LedgerError::BelowHeld { asked: bytes, held }
            })?;
            self.state.budget.store(bytes, Ordering::Release);
        } else {
            self.state.budget.store(bytes, Ordering::Release);
            let paid = self.state.room.give_and_pay(bytes - now);
            registry.pay(paid);
        }
        Ok(())
    }

    /// Registers a consumer. Names are for display and need not be unique.
    pub fn register(&self, name: impl Into<String>, class: Class) -> Consumer {
        let mut registry = self.lock();
        let account = Arc::new(Account::new(registry.next_id, name.into().into(), class));
        registry.next_id += 1;
        registry.accounts.push(Arc::clone(&account));
        if class.is_elastic() {
            self.state.elastic_consumers.fetch_add(1, Ordering::AcqRel);
        }
        Consumer::new(self.clone(), account)
    }

    /// Returns all live consumers, in the order of registration. Takes the lock.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerInfo> {
        let registry = self.lock();
        registry.accounts.iter().map(|account| self.describe(account)).collect()
    }

    pub(crate) fn try_grow(&self, account: &Account, bytes: u64) -> Result<(), Denied> {
        self.state.room.take(bytes).map_err(|available| Denied {
            consumer: account.name.clone(),
            asked: bytes,
            available,
            budget: self.budget(),
        })?;
        self.count(account, bytes);
        Ok(())
    }

    pub(crate) fn grow_or_owe(&self, account: &Account, bytes: u64) {
        if self.state.room.take(bytes).is_ok() {
            return self.count(account, bytes);
        }
        let _registry = self.lock();
        let overdraft = self.state.room.take_or_owe(bytes);
        debug_assert_eq!(overdraft.taken, bytes, "`{}` owes beyond any memory", account.name);
        account.owe(overdraft.owed);
        self.count(account, overdraft.taken);
    }

    /// Gives back at most `bytes` and returns how many of them were held.
    pub(crate) fn shrink(&self, account: &Account, bytes: u64) -> u64 {
        let given = account.remove(bytes);
        if !account.class.is_elastic() {
            // The account is reduced before the sum here, and the sum is raised before the account
            // in `count`: the sum is never below what the accounts hold, so it cannot wrap.
            self.state.inelastic_held.fetch_sub(given, Ordering::AcqRel);
        }
        if !self.state.room.give(given) {
            let registry = self.lock();
            let paid = self.state.room.give_and_pay(given);
            registry.pay(account.pay(paid));
        }
        given
    }

    pub(crate) fn unregister(&self, account: &Account) {
        self.shrink(account, u64::MAX);
        let mut registry = self.lock();
        registry.accounts.retain(|other| other.id != account.id);
        if account.class.is_elastic() {
            self.state.elastic_consumers.fetch_sub(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn fair_share(&self, account: &Account) -> u64 {
        if !account.class.is_elastic() {
            return account.held();
        }
        let fixed = self.state.inelastic_held.load(Ordering::Acquire);
        let sharers = self.state.elastic_consumers.load(Ordering::Acquire).max(1);
        self.budget().saturating_sub(fixed) / sharers
    }

    pub(crate) fn describe(&self, account: &Account) -> ConsumerInfo {
        let held_bytes = account.held();
        ConsumerInfo {
            name: account.name.clone(),
            class: account.class,
            held_bytes,
            debt_bytes: account.owed().min(held_bytes),
            peak_bytes: account.peak(),
            fair_share_bytes: self.fair_share(account),
        }
    }

    fn count(&self, account: &Account, bytes: u64) {
        if !account.class.is_elastic() {
            self.state.inelastic_held.fetch_add(bytes, Ordering::AcqRel);
        }
        account.add(bytes);
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.state.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Reduces the debts by `bytes`, of the oldest consumers first.
    fn pay(&self, bytes: u64) {
        let mut left = bytes;
        for account in &self.accounts {
            if left == 0 {
                return;
            }
            left = account.pay(left);
        }
        debug_assert_eq!(left, 0, "more debt was paid than consumers owe");
    }
}
