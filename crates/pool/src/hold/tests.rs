//! Interleavings of freeing, replayed step by step.

use std::sync::Arc;

use terrace_ledger::Ledger;
use terrace_store::{MemoryBlocks, Store};

use super::*;
use crate::config::PoolConfig;
use crate::error::PoolError;
use crate::page::PageRef;
use crate::pool::Pool;
use crate::space::Space;

const LEN: usize = 64 << 10;

fn space() -> Space {
    let store = Store::open(Arc::new(MemoryBlocks::new(1 << 20)), "store", 1 << 20).expect("opens");
    let mut config = PoolConfig::new("test", Ledger::new(1 << 20));
    config.store = Some(Arc::new(store));
    let pool = Pool::new(config).expect("opens");
    pool.create_space("owner", None).expect("room")
}

fn frame_of(core: &Core, page: PageRef) -> FrameId {
    match core.pages[page.id()].state.get() {
        PageState::Resident(id) => id,
        state => panic!("{page:?} is {state:?}"),
    }
}

fn make(space: &Space) -> PageRef {
    space.allocate(LEN).expect("room").0
}

#[test]
fn who_saw_the_last_page_of_an_id_leaves_the_next_alone() {
    let space = space();
    let core = space.pool_handle().core();
    let old = make(&space);
    let doomed = core.pages[old.id()].state.doom().expect("a page");
    free_doomed(core, old.id(), doomed);
    let mut new = make(&space);
    assert_eq!(new.id(), old.id(), "the id is used again at once");
    free_doomed(core, old.id(), doomed);
    assert!(space.read(&mut new).is_ok(), "it was not meant");
}

#[test]
fn a_mark_that_comes_late_frees_nothing() {
    let space = space();
    let core = space.pool_handle().core();
    let mut page = make(&space);
    core.frames[frame_of(core, page)].doom();
    drop(space.read(&mut page).expect("there"));
    assert!(space.read(&mut page).is_ok(), "it was freed");
}

#[test]
fn a_look_at_the_wrong_page_swallows_no_doom() {
    let space = space();
    let core = space.pool_handle().core();
    for hold in [Hold::Shared, Hold::Exclusive] {
        let (mut page, stranger) = (make(&space), PageId(63));
        let id = frame_of(core, page);
        let frame = &core.frames[id];
        // A thread with a stale hint takes this frame's latch and finds another page.
        assert!(if hold == Hold::Shared {
            frame.latch.try_shared()
        } else {
            frame.latch.try_exclusive()
        });
        space.free(page).expect("its own page");
        assert!(!keep_if(core, frame, id, hold, stranger));
        assert!(matches!(space.read(&mut page), Err(PoolError::NoSuchPage { .. })), "{hold:?}");
        assert_eq!(space.resident_bytes(), 0);
    }
}
