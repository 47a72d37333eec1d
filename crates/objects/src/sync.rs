//! Atomics of the standard library, or of loom: the words of a group, and the bytes of objects.
//!
//! Under `--cfg loom` words are loom's atomics. Bytes in mapped memory cannot be, so each byte that
//! a program uses has an atomic elsewhere, found by the byte's address.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) mod bytes {
    use std::cell::RefCell;
    use std::rc::Rc;

    use loom::sync::atomic::AtomicU8;

    /// Atomics of the program's bytes, and the address of the first one.
    struct Bytes {
        start: usize,
        all: Vec<AtomicU8>,
    }

    // Loom runs all threads of a program on one thread of the operating system.
    thread_local! {
        static BYTES: RefCell<Option<Rc<Bytes>>> = const { RefCell::new(None) };
    }

    /// Makes `len` bytes from `start` on the memory of the running program.
    #[cfg(test)]
    pub(crate) fn use_memory(start: *const u8, len: usize) {
        let all = (0..len).map(|_| AtomicU8::new(0)).collect();
        BYTES.set(Some(Rc::new(Bytes { start: start.addr(), all })));
    }

    /// Runs `work` on the byte at an address; another thread may run meanwhile.
    pub(crate) fn with<T>(at: *const u8, work: impl FnOnce(&AtomicU8) -> T) -> T {
        let bytes = BYTES.with_borrow(Clone::clone);
        let bytes = bytes.unwrap_or_else(|| panic!("the program uses no memory"));
        let byte = at.addr().checked_sub(bytes.start).and_then(|n| bytes.all.get(n));
        work(byte.unwrap_or_else(|| panic!("{at:p} is not of the memory that the program uses")))
    }
}
