//! References to pages of other spaces, which every operation must refuse.

use std::fmt::Debug;

use super::common::{KIB, MIB, pool, space};
use terrace_pool::{PageRef, Pool, PoolError, Space};

fn make(space: &Space, byte: u8) -> PageRef {
    let (page, mut bytes) = space.allocate(4 * KIB).expect("room");
    bytes.fill(byte);
    page
}

fn refused<T: Debug>(how: &str, asked: Result<T, PoolError>, owner: &str) {
    match asked {
        Err(error @ PoolError::WrongSpace { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&format!("belongs to {owner}, not to thief")), "{how}: {text}");
        }
        other => panic!("{how}: {other:?}"),
    }
}

fn every_way_in_is_refused(thief: &Space, page: PageRef, owner: &str) {
    let mut asked = page;
    refused("read", thief.read(&mut asked).map(drop), owner);
    refused("write", thief.write(&mut asked).map(drop), owner);
    refused("optimistic", thief.optimistic(&mut asked).map(drop), owner);
    assert!(thief.optimistic_resident(&mut asked).is_none());
    refused("load", thief.load(&mut [asked]), owner);
    refused("fetch", thief.fetch(&[asked]).wait().map(drop), owner);
    refused("fetch_needed", thief.fetch_needed(&[asked]).wait().map(drop), owner);
    refused("persist", thief.persist(&mut [asked]), owner);
    refused("free", thief.free(asked), owner);
    assert_eq!(thief.tier_of(asked), None);
    thief.prefetch(&[asked]);
    assert_eq!(asked, page, "a refused reference learns no frame");
}

/// A page with a right hint, without one, and on the store only.
fn in_every_place(pool: &Pool, thief: &Space, page: PageRef, owner: &str) {
    every_way_in_is_refused(thief, page, owner);
    every_way_in_is_refused(thief, page.without_hint(), owner);
    pool.flush().expect("a store");
    pool.release(64 * MIB);
    let loads = pool.stats().loads;
    every_way_in_is_refused(thief, page, owner);
    assert_eq!(pool.stats().loads, loads, "nothing was brought in");
}

#[test]
fn a_page_of_another_space_is_refused() {
    let pool = pool(4 * MIB, &[]);
    let owner = space(&pool);
    let thief = pool.create_space("thief", None).expect("a space");
    let mut page = make(&owner, 7);
    in_every_place(&pool, &thief, page, "owner");
    assert_eq!(owner.read(&mut page).expect("it is there")[9], 7);
    drop(owner.write(&mut page).expect("not durable"));
    owner.free(page).expect("its own page");
    owner.free(page).expect("it is gone already");
    let error = thief.read(&mut page).map(drop).expect_err("freed");
    assert!(matches!(error, PoolError::NoSuchPage { .. }), "{error}");
}

#[test]
fn a_reference_of_a_dropped_space_leads_to_no_page_of_the_next() {
    let pool = pool(4 * MIB, &[]);
    let first = space(&pool);
    let old: Vec<_> = (0..64).map(|_| make(&first, 1)).collect();
    drop(first);
    let thief = pool.create_space("thief", None).expect("a space");
    let next = pool.create_space("next", None).expect("a space");
    let new: Vec<_> = (0..64).map(|_| make(&next, 2)).collect();
    let again = old.iter().find(|page| new.iter().any(|new| new.id() == page.id()));
    let mut page = *again.expect("ids of dropped spaces are used again");
    in_every_place(&pool, &thief, page, "next");
    assert_eq!(next.read(&mut page).expect("it is there")[0], 2);
}

#[test]
fn a_pinned_page_of_a_dropped_space_is_not_reused() {
    let pool = pool(4 * MIB, &[]);
    let first = space(&pool);
    let mut page = make(&first, 1);
    let pin = first.read(&mut page).expect("it is there").pin();
    drop(first);
    let thief = pool.create_space("thief", None).expect("a space");
    every_way_in_is_refused(&thief, page, "a dropped space");
    assert_eq!(pin[0], 1);
}
