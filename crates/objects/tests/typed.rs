//! Typed objects of a fixed layout.

use std::collections::HashSet;

use terrace_objects::{Backing, Batch, Id, ObjectConfig, ObjectError, ObjectStore};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Account {
    owner: u64,
    cents: i64,
    flags: [u8; 16],
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
struct Wide([u64; 80]);

fn store() -> ObjectStore {
    let memory = Backing::Dram { bytes: 16 << 20 };
    ObjectStore::new(ObjectConfig::new("typed", memory)).expect("memory")
}

fn account(owner: u64) -> Account {
    Account { owner, cents: 5, flags: [1; 16] }
}

#[test]
fn values_come_back_as_they_were() {
    let store = store();
    let (accounts, wides) = (store.typed::<Account>(), store.typed::<Wide>());
    let id = accounts.create(&account(1)).expect("room");
    assert_eq!(store.size(id.object()).expect("there"), size_of::<Account>());
    let wide = wides.create(&Wide([7; 80])).expect("room");
    assert_eq!(accounts.get(id).expect("there"), account(1));
    assert_eq!(wides.get(wide).expect("there"), Wide([7; 80]));
    accounts.put(id, &account(2)).expect("there");
    let ids = accounts.create_many(&[account(3), account(4)]).expect("room");
    let all = [&[id][..], &ids].concat();
    let found = accounts.get_many(&all, &mut Batch::new());
    let owners: Vec<u64> = found.into_iter().map(|it| it.expect("there").owner).collect();
    assert_eq!(owners, [2, 3, 4]);
    assert_eq!(HashSet::from([id, ids[0], ids[1], id]).len(), 3);
    accounts.remove(id).expect("there");
    assert!(matches!(accounts.get(id), Err(ObjectError::NotFound(_))));
    assert!(matches!(accounts.look(id), Err(ObjectError::NotFound(_))));
}

#[test]
fn other_bytes_are_no_value() {
    let store = store();
    let accounts = store.typed::<Account>();
    let id = Id::of(store.create_with(b"a text").expect("room"));
    for error in [
        accounts.get(id).expect_err("6 bytes"),
        accounts.look(id).expect_err("6 bytes"),
        accounts.update(id, |_| ()).expect_err("6 bytes"),
        accounts.get_many(&[id], &mut Batch::new()).remove(0).expect_err("6 bytes"),
    ] {
        assert!(matches!(error, ObjectError::Type { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("Account") && text.contains("6 bytes, not 32"), "{text}");
    }
    assert_eq!(store.held(), 0);
    assert_eq!(store.get_vec(id.object()).expect("there"), b"a text");
}

#[test]
fn values_are_looked_at_in_their_place() {
    let store = store();
    let accounts = store.typed::<Account>();
    let id = accounts.create(&account(9)).expect("room");
    let (first, second) = (accounts.look(id).expect("there"), accounts.look(id).expect("there"));
    assert!(std::ptr::eq(&raw const *first, &raw const *second));
    assert_eq!((*first, second.id()), (account(9), id));
    store.defragment();
    assert_eq!(second.owner, 9);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| accounts.put(id, &account(10)));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(first.owner, 9, "it waits");
        drop((first, second));
        put.join().expect("no panic").expect("there");
    });
    assert_eq!(accounts.get(id).expect("there"), account(10));
    let wide = store.typed::<Wide>().create(&Wide([3; 80])).expect("room");
    assert_eq!(*store.typed::<Wide>().look(wide).expect("there"), Wide([3; 80]));
    assert_eq!(store.held(), 0);
}

#[test]
fn no_update_is_lost() {
    let store = store();
    let id = store.typed::<Account>().create(&account(0)).expect("room");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    store
                        .typed::<Account>()
                        .update(id, |account| account.cents += 1)
                        .expect("there");
                }
            });
        }
    });
    assert_eq!(store.typed::<Account>().get(id).expect("there").cents, 5 + 8 * 500);
}
