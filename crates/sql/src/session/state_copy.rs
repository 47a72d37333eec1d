//! Copies of a session's state, with which its statements are planned.
//!
//! A statement is planned with a copy of the state, which resolves names in the snapshot of the
//! statement. The state has more than a thousand functions by name, so that copying it takes longer
//! than parsing a small statement. The copy of the last statement is kept for the next one, unless
//! functions or rules of the session have changed since.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use datafusion::execution::SessionState;
use datafusion::prelude::SessionContext;
use terrace_sys::sync::lock;

/// Maximum number of copies that are kept in this process. A copy has about 150 KiB.
const COPIES_MAX: usize = 64;

/// Number of copies that are kept in this process.
static COPIES: AtomicUsize = AtomicUsize::new(0);

/// The copy that a session keeps between two statements.
#[derive(Default)]
pub(super) struct StateCopy(Mutex<Option<SessionState>>);

impl StateCopy {
    /// Returns a copy of the state of the session's context, for a statement that begins now.
    pub(super) fn take(&self, context: &SessionContext) -> SessionState {
        let kept = self.replace(None);
        let current = context.state_ref();
        let current = current.read();
        let mut state = match kept {
            Some(mut kept) if is_same(&kept, &current) => {
                renew(&mut kept, &current);
                kept
            }
            _ => current.clone(),
        };
        state.mark_start_execution();
        state
    }

    /// Keeps the copy of a statement that has been planned, and nothing of the statement.
    pub(super) fn keep(&self, mut state: SessionState, context: &SessionContext) {
        renew(&mut state, &context.state_ref().read());
        self.replace(Some(state));
    }

    fn replace(&self, state: Option<SessionState>) -> Option<SessionState> {
        if state.is_some() && COPIES.fetch_add(1, Ordering::Relaxed) >= COPIES_MAX {
            COPIES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let before = std::mem::replace(&mut *lock(&self.0), state);
        COPIES.fetch_sub(usize::from(before.is_some()), Ordering::Relaxed);
        before
    }
}

impl Drop for StateCopy {
    fn drop(&mut self) {
        self.replace(None);
    }
}

/// Gives a copy the settings and the catalogs of the current state.
fn renew(copy: &mut SessionState, current: &SessionState) {
    copy.register_catalog_list(Arc::clone(current.catalog_list()));
    *copy.config_mut() = current.config().clone();
    copy.table_options_mut().clone_from(current.table_options());
}

/// True if a copy has the functions, planners and rules of the current state. The copy keeps them
/// alive, so that others have other addresses.
fn is_same(copy: &SessionState, current: &SessionState) -> bool {
    Parts::of(copy) == Parts::of(current)
}

/// Numbers of functions, planners, rules and other parts of a state, and sums of their addresses.
#[derive(PartialEq, Eq)]
struct Parts([(usize, usize); 12]);

impl Parts {
    fn of(state: &SessionState) -> Self {
        let analyzer = state.analyzer();
        Self([
            of_map(state.scalar_functions()),
            of_map(state.higher_order_functions()),
            of_map(state.aggregate_functions()),
            of_map(state.window_functions()),
            of_map(state.table_functions()),
            of_map(state.table_factories()),
            of_list(&analyzer.function_rewrites),
            of_list(&analyzer.rules),
            of_list(state.optimizers()),
            of_list(state.physical_optimizers()),
            of_list(state.expr_planners()),
            of_list(state.relation_planners()),
        ])
    }
}

fn of_map<T: ?Sized>(map: &HashMap<String, Arc<T>>) -> (usize, usize) {
    (map.len(), map.values().map(address).fold(0, usize::wrapping_add))
}

fn of_list<T: ?Sized>(list: &[Arc<T>]) -> (usize, usize) {
    (list.len(), list.iter().map(address).fold(0, usize::wrapping_add))
}

/// The address of a part, times an odd number that spreads it over all bits.
fn address<T: ?Sized>(part: &Arc<T>) -> usize {
    Arc::as_ptr(part).cast::<()>().addr().wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};

    use super::*;

    fn register(context: &SessionContext) {
        let answer = Arc::new(|_: &[ColumnarValue]| {
            Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::from(42)))
        });
        context.register_udf(create_udf(
            "answer",
            vec![],
            DataType::Int32,
            Volatility::Immutable,
            answer,
        ));
    }

    #[test]
    fn a_copy_is_kept_until_a_function_changes() {
        let (context, copy) = (SessionContext::new(), StateCopy::default());
        let known = |state: &SessionState| state.scalar_functions().get("answer").cloned();
        let first = copy.take(&context);
        assert!(known(&first).is_none());
        copy.keep(first, &context);
        register(&context);
        let added = known(&copy.take(&context)).expect("the new function");
        let state = copy.take(&context);
        copy.keep(state, &context);
        register(&context);
        let replaced = known(&copy.take(&context)).expect("the replaced function");
        assert!(!Arc::ptr_eq(&added, &replaced));
        let current = context.state();
        assert!(Arc::ptr_eq(&replaced, &known(&current).expect("the function")));
    }

    #[test]
    fn a_copy_has_the_current_settings() {
        let (context, copy) = (SessionContext::new(), StateCopy::default());
        let mut state = copy.take(&context);
        state.config_mut().set_extension(Arc::new(7_u8));
        copy.keep(state, &context);
        let changed = |state: &SessionState| state.config_options().execution.batch_size.get();
        let options = context.state_ref();
        options
            .write()
            .config_mut()
            .options_mut()
            .set("datafusion.execution.batch_size", "77")
            .expect("set");
        let state = copy.take(&context);
        assert_eq!(changed(&state), 77);
        assert!(state.config().get_extension::<u8>().is_none());
        assert!(Arc::ptr_eq(state.catalog_list(), context.state().catalog_list()));
    }
}
