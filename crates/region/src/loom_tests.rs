//! Loom model of the block word: a thread declares a block unused and uses it again while the pager
//! takes it out; every interleaving is explored.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p terrace-region --release --lib loom_tests`

use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use crate::block::{Lost, Word};

/// Block of one number. Faults are handled under the pager's lock, as if by its thread.
struct Block {
    word: Word,
    /// Value in place; `None` if the block is absent.
    place: Mutex<Option<u64>>,
    /// Value that the pager believes to be in the source.
    pager: Mutex<Option<u64>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

impl Block {
    /// Creates a block in place, with a value that the source does not have.
    fn new(value: u64) -> Arc<Self> {
        let word = Word::default();
        word.publish(0);
        Arc::new(Self { word, place: Mutex::new(Some(value)), pager: Mutex::new(None) })
    }

    fn touch<R>(&self, then: impl Fn(&mut u64) -> R) -> R {
        loop {
            if let Some(value) = lock(&self.place).as_mut() {
                return then(value);
            }
            let mut source = lock(&self.pager);
            let mut place = lock(&self.place);
            if place.is_none() {
                if self.word.take_lost().lost {
                    *source = None;
                }
                *place = Some(source.unwrap_or(0));
                self.word.publish(0);
            }
        }
    }

    fn take_out(&self, source: &mut Option<u64>) {
        if !self.word.withdraw() {
            return;
        }
        let value = lock(&self.place).take();
        match self.word.take_lost() {
            Lost { unused: true, .. } => *source = None,
            Lost { unused: false, .. } => *source = value,
        }
    }

    fn evict(&self) {
        self.take_out(&mut lock(&self.pager));
    }

    /// Handles the notice that the block was declared unused, as the pager does.
    fn drop_unused(&self) {
        let mut source = lock(&self.pager);
        if !self.word.is_lost() {
            return;
        }
        if lock(&self.place).is_none() {
            self.word.take_lost();
            *source = None;
        } else if self.word.is_unused() {
            self.take_out(&mut source);
        }
    }
}

/// A value written after the block is used again survives every eviction.
#[test]
fn what_is_used_again_is_kept() {
    loom::model(|| {
        let block = Block::new(7);
        let pager = Arc::clone(&block);
        let pager = thread::spawn(move || {
            pager.drop_unused();
            pager.evict();
        });
        block.word.set_unused();
        block.word.set_used();
        block.touch(|value| *value = 5);
        assert_eq!(block.touch(|value| *value), 5);
        pager.join().expect("pager");
        block.evict();
        assert_eq!(block.touch(|value| *value), 5);
    });
}

/// The former value comes back whole or as zero, and once the block is used again it stays the same
/// or turns to zero.
#[test]
fn what_was_there_comes_back_or_not() {
    loom::model(|| {
        let block = Block::new(7);
        let pager = Arc::clone(&block);
        let pager = thread::spawn(move || {
            pager.evict();
            pager.drop_unused();
        });
        block.word.set_unused();
        block.word.set_used();
        let found = block.touch(|value| *value);
        assert!([0, 7].contains(&found));
        pager.join().expect("pager");
        block.evict();
        assert!([0, found].contains(&block.touch(|value| *value)));
    });
}

/// A second declaration as unused takes effect even if the first is not yet acknowledged.
#[test]
fn what_is_given_up_again_is_heard() {
    loom::model(|| {
        let block = Block::new(7);
        let pager = Arc::clone(&block);
        let pager = thread::spawn(move || pager.drop_unused());
        block.word.set_unused();
        block.word.set_used();
        block.touch(|value| *value = 5);
        block.word.set_unused();
        pager.join().expect("pager");
        block.evict();
        block.word.set_used();
        assert_eq!(block.touch(|value| *value), 0);
    });
}
