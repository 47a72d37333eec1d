//! Typed objects of any type with the traits of `serde`.

#![cfg(feature = "serde")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terrace_objects::{Backing, Batch, Id, ObjectConfig, ObjectError, ObjectStore};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Profile {
    name: String,
    friends: Vec<u64>,
    notes: BTreeMap<String, Option<f64>>,
}

fn store() -> ObjectStore {
    let memory = Backing::Dram { bytes: 16 << 20 };
    ObjectStore::new(ObjectConfig::new("encoded", memory)).expect("memory")
}

#[test]
fn values_of_any_length_come_back() {
    let store = store();
    let profiles = store.encoded::<Profile>();
    let mut profile = Profile { name: "Nothaas".to_owned(), ..Profile::default() };
    let id = profiles.create(&profile).expect("room");
    assert!(store.size(id.object()).expect("there") < 16);
    for n in 0..200 {
        profile.friends.push(n << n.min(50));
        profile.notes.insert(format!("note {n}"), (n % 2 == 0).then_some(0.5));
        profiles.put(id, &profile).expect("room");
        assert_eq!(profiles.get(id).expect("there"), profile);
    }
    let friends = profiles.update(id, |profile| {
        profile.notes.clear();
        profile.friends.len()
    });
    assert_eq!(friends.expect("there"), 200);
    let others = profiles.create_many(&[profile.clone(), Profile::default()]).expect("room");
    let found = profiles.get_many(&others, &mut Batch::new());
    let found: Vec<Profile> = found.into_iter().map(|it| it.expect("there")).collect();
    assert_eq!(found, [profile, Profile::default()]);
    store.check().expect("in order");
}

#[test]
fn other_bytes_are_no_value() {
    let store = store();
    let profiles = store.encoded::<Profile>();
    let whole = profiles.create(&Profile { friends: vec![1; 9], ..Profile::default() });
    let mut bytes = store.get_vec(whole.expect("room").object()).expect("there");
    let cut = store.create_with(&bytes[..bytes.len() - 1]).expect("room");
    bytes.push(0);
    let long = store.create_with(&bytes).expect("room");
    let wild = store.create_with(&[0xff; 40]).expect("room");
    for id in [cut, long, wild] {
        let error = profiles.get(Id::of(id)).expect_err("damaged");
        assert!(matches!(error, ObjectError::Type { .. }), "{error}");
        assert!(error.to_string().contains("Profile"), "{error}");
        assert!(profiles.update(Id::of(id), |_| ()).is_err());
    }
    assert_eq!(store.held(), 0);
}
