//! jemalloc's controls (`mallctl`), by their names.
//!
//! See `man jemalloc`, "MALLCTL NAMESPACE". Every control used here exists in jemalloc 5.3 built
//! with statistics, as it is here.

use std::ffi::{CString, c_uint, c_void};
use std::io;
use std::ptr;

use tikv_jemalloc_sys::{extent_hooks_t, mallctl};

use crate::base;

/// Error of a control, with the control's name.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) key: String,
    pub(crate) source: io::Error,
}

/// Calls a control that writes an `O` to `output`, if given, and reads an `I` from `input`, if
/// given.
///
/// # Safety
/// The control's types are `O` and `I`. A pointer in the input is valid for as long as the control
/// keeps it.
unsafe fn control<I, O>(
    key: String,
    mut input: Option<I>,
    mut output: Option<&mut O>,
) -> Result<(), Refused> {
    let name = CString::new(key.as_str()).unwrap_or_default();
    let mut out_len = size_of::<O>();
    let has_out = output.is_some();
    let out = output.as_mut().map_or(ptr::null_mut(), |output| ptr::from_mut::<O>(output));
    let len = if has_out { &raw mut out_len } else { ptr::null_mut() };
    let (input, in_len) = match &mut input {
        Some(input) => (ptr::from_mut::<I>(input).cast(), size_of::<I>()),
        None => (ptr::null_mut(), 0),
    };
    // SAFETY: the name ends in a zero byte; the pointers lead to locals or to values borrowed for
    // the call, of the types that the caller promises and of the lengths given.
    let code = unsafe { mallctl(name.as_ptr(), out.cast::<c_void>(), len, input, in_len) };
    match code {
        0 => Ok(()),
        code => Err(Refused { key, source: io::Error::from_raw_os_error(code) }),
    }
}

fn read_size(key: String) -> Result<usize, Refused> {
    let mut value = 0_usize;
    // SAFETY: every caller names a control of type `size_t`.
    unsafe { control::<(), usize>(key, None, Some(&mut value)) }.map(|()| value)
}

fn run(key: String) -> Result<(), Refused> {
    // SAFETY: the controls named by the callers have neither input nor output.
    unsafe { control::<(), ()>(key, None, None) }
}

/// An arena with its own extent hooks. Only [`Arena::destroy`] releases its resources.
#[derive(Debug)]
pub(crate) struct Arena {
    index: c_uint,
}

impl Arena {
    /// Creates an arena that takes memory for its metadata by the hooks `metadata`, or in blocks of
    /// DRAM if it is `None`. The arena takes memory for objects the same way until
    /// [`Arena::set_data_hooks`].
    ///
    /// # Safety
    /// The hooks are valid, and stay at their addresses until the arena is destroyed.
    pub(crate) unsafe fn create(metadata: Option<*mut extent_hooks_t>) -> Result<Self, Refused> {
        let mut index: c_uint = 0;
        // jemalloc takes an arena's metadata from the hooks of `arenas.create`, and its data from
        // the current ones.
        let first = metadata.unwrap_or_else(base::hooks);
        // SAFETY: the control reads a pointer to hooks and writes an `unsigned`.
        unsafe { control("arenas.create".to_owned(), Some(first), Some(&mut index)) }?;
        Ok(Self { index })
    }

    /// Sets the hooks by which the arena takes memory for objects (`extent_hooks`).
    ///
    /// # Safety
    /// The hooks are valid, and stay at their addresses until the arena is destroyed.
    pub(crate) unsafe fn set_data_hooks(&self, data: *mut extent_hooks_t) -> Result<(), Refused> {
        // SAFETY: the control reads a pointer to hooks; the old pointer is not requested.
        unsafe { control::<*mut extent_hooks_t, ()>(self.key("extent_hooks"), Some(data), None) }
    }

    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    fn key(&self, name: &str) -> String {
        format!("arena.{}.{name}", self.index)
    }

    /// Sets the maximum bytes of an extent taken ahead of need. Has no effect if the process runs
    /// jemalloc with the option `retain:false`.
    pub(crate) fn set_growth(&self, bytes: usize) -> Result<(), Refused> {
        // SAFETY: the control takes a `size_t`.
        let set = unsafe { control::<usize, ()>(self.key("retain_grow_limit"), Some(bytes), None) };
        match set {
            Err(refused) if refused.source.kind() == io::ErrorKind::NotFound => Ok(()),
            set => set,
        }
    }

    /// Keeps freed extents of any length for the time that [`Arena::set_decay`] sets; by default
    /// jemalloc gives extents of 8 MiB and more back at once.
    pub(crate) fn keep_large_extents(&self) -> Result<(), Refused> {
        let key = self.key("oversize_threshold");
        // SAFETY: the control takes a `size_t`.
        unsafe { control::<usize, ()>(key, Some(usize::MAX), None) }
    }

    /// Sets the time that freed pages are kept, in milliseconds; -1 never purges them.
    pub(crate) fn set_decay(&self, ms: isize) -> Result<(), Refused> {
        for name in ["dirty_decay_ms", "muzzy_decay_ms"] {
            let ms = if name == "muzzy_decay_ms" { 0 } else { ms };
            // SAFETY: both controls take an `ssize_t`.
            unsafe { control::<isize, ()>(self.key(name), Some(ms), None) }?;
        }
        Ok(())
    }

    /// Gives all free pages of the arena back to its hooks at once.
    pub(crate) fn purge(&self) -> Result<(), Refused> {
        run(self.key("purge"))
    }

    /// Gives back the pages whose decay time has passed.
    pub(crate) fn decay(&self) -> Result<(), Refused> {
        run(self.key("decay"))
    }

    /// Frees all objects.
    pub(crate) fn reset(&self) -> Result<(), Refused> {
        run(self.key("reset"))
    }

    /// Frees all objects and the arena.
    pub(crate) fn destroy(&self) -> Result<(), Refused> {
        run(self.key("destroy"))
    }

    /// Returns one of the arena's statistics, as of the last [`take_statistics`].
    pub(crate) fn statistic(&self, name: &str) -> Result<usize, Refused> {
        read_size(format!("stats.arenas.{}.{name}", self.index))
    }
}

/// Refreshes the statistics of all arenas (`epoch`).
pub(crate) fn take_statistics() -> Result<(), Refused> {
    // SAFETY: the control takes a `uint64_t` of any value.
    unsafe { control::<u64, ()>("epoch".to_owned(), Some(1), None) }
}

/// Returns one of the statistics of the whole allocator, as of the last [`take_statistics`].
pub(crate) fn total(name: &str) -> Result<usize, Refused> {
    read_size(format!("stats.{name}"))
}

/// Gives the free pages of the arenas that the program's allocator has made for its threads back at
/// once; arenas of heaps keep theirs.
pub(crate) fn purge_own() -> Result<(), Refused> {
    let mut count: c_uint = 0;
    // SAFETY: the control writes an `unsigned`.
    unsafe { control::<(), c_uint>("opt.narenas".to_owned(), None, Some(&mut count)) }?;
    for index in 0..count {
        match run(format!("arena.{index}.purge")) {
            // An arena that no thread has used yet.
            Err(Refused { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            purged => purged?,
        }
    }
    Ok(())
}

/// Returns the number of times that statistics were refreshed.
#[cfg(test)]
pub(crate) fn statistics_taken() -> u64 {
    let mut count = 0;
    // SAFETY: the control writes a `uint64_t`.
    let told = unsafe { control::<(), u64>("epoch".to_owned(), None, Some(&mut count)) };
    told.expect("told");
    count
}

/// Binds this thread's other allocations to an arena, which then cannot be destroyed.
#[cfg(test)]
pub(crate) fn bind_thread(index: usize) {
    let index = c_uint::try_from(index).expect("a number of an arena");
    // SAFETY: the control takes an `unsigned`.
    unsafe { control::<c_uint, ()>("thread.arena".to_owned(), Some(index), None) }.expect("bound");
}

/// Creates a thread cache; its objects belong to the arena that each call names.
pub(crate) fn create_cache() -> Result<c_uint, Refused> {
    let mut index = 0;
    // SAFETY: the control gives an `unsigned`.
    unsafe { control::<(), c_uint>("tcache.create".to_owned(), None, Some(&mut index)) }?;
    Ok(index)
}

/// Empties a cache.
pub(crate) fn flush_cache(index: c_uint) -> Result<(), Refused> {
    // SAFETY: the control takes an `unsigned`.
    unsafe { control::<c_uint, ()>("tcache.flush".to_owned(), Some(index), None) }
}

/// Empties and destroys a cache. Its number may then be given to another cache.
pub(crate) fn destroy_cache(index: c_uint) -> Result<(), Refused> {
    // SAFETY: the control takes an `unsigned`.
    unsafe { control::<c_uint, ()>("tcache.destroy".to_owned(), Some(index), None) }
}
