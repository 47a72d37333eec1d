//! Copies of bytes that other threads may be changing.
//!
//! An optimistic reader of an object copies its bytes first and then checks that they did not
//! change (see [`terrace_latch::Latch`]), so bytes are read while another thread writes them. In
//! Rust only atomic accesses may do that. Byte by byte they would be slow, and atomics of several
//! sizes over the same bytes are undefined; therefore all reads and writes go through this module:
//! on x86-64 as inline assembly, opaque to the compiler, with the effect of one relaxed atomic
//! access to each byte, and elsewhere, and under Miri, as exactly these.
//!
//! No order is implied between the bytes or with anything else; fences and the latch provide it.

/// Longest piece that is read or written by one instruction.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
const WIDE: usize = 16;

/// Copies `to.len()` bytes from `from`.
///
/// # Safety
/// The bytes must be mapped and readable for the length of the call. Other threads may write them
/// meanwhile only through this module.
#[inline]
pub(crate) unsafe fn read(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller's promise for `from`; `to` is an exclusive borrow of that length.
    unsafe { copy_shared(from, to.as_mut_ptr(), to.len(), Shared::From) }
}

/// Copies `from` to the bytes that begin at `to`.
///
/// # Safety
/// The bytes must be mapped and writable, and no other thread may write them during the call. Other
/// threads may read them meanwhile only through this module.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, from: &[u8]) {
    // SAFETY: the caller's promise for `to`; `from` is a borrow of that length.
    unsafe { copy_shared(from.as_ptr(), to, from.len(), Shared::To) }
}

/// Writes `len` zeros.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    const ZEROS: [u8; 256] = [0; 256];
    for done in (0..len).step_by(ZEROS.len()) {
        let piece = ZEROS.len().min(len - done);
        // SAFETY: `done + piece` is at most `len`, and the caller's promise holds for all of it.
        unsafe { write(to.add(done), &ZEROS[..piece]) };
    }
}

/// Reads a little-endian number of 64 bits, which need not be aligned.
///
/// # Safety
/// As [`read`].
#[inline]
pub(crate) unsafe fn read_u64(from: *const u8) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the caller's promise, for eight bytes.
    unsafe { read(from, &mut bytes) };
    u64::from_le_bytes(bytes)
}

/// Reads a little-endian number of 16 bits, which need not be aligned.
///
/// # Safety
/// As [`read`].
#[inline]
pub(crate) unsafe fn read_u16(from: *const u8) -> u16 {
    let mut bytes = [0; 2];
    // SAFETY: the caller's promise, for two bytes.
    unsafe { read(from, &mut bytes) };
    u16::from_le_bytes(bytes)
}

/// Side of a copy that other threads may use at the same time.
#[derive(Clone, Copy)]
enum Shared {
    From,
    To,
}

/// # Safety
/// Both sides have `len` bytes; the shared one is used through this module alone.
#[cfg(all(any(not(target_arch = "x86_64"), miri), not(loom)))]
unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize, shared: Shared) {
    use std::sync::atomic::{AtomicU8, Ordering};
    for n in 0..len {
        match shared {
            // SAFETY: byte `n` of both sides is the caller's to use; the shared side is accessed by
            // atomic accesses of one byte only, here as everywhere.
            Shared::From => unsafe {
                let byte = AtomicU8::from_ptr(from.add(n).cast_mut()).load(Ordering::Relaxed);
                to.add(n).write(byte);
            },
            // SAFETY: as above.
            Shared::To => unsafe {
                AtomicU8::from_ptr(to.add(n)).store(from.add(n).read(), Ordering::Relaxed);
            },
        }
    }
}

/// The byte that loom last stored is kept in memory as well. A store of the byte already there is
/// omitted: a reader of the earlier store sees the same value, and learns less of the other writes.
///
/// # Safety
/// As for the other versions; the shared side is in the memory that a loom program uses.
#[cfg(loom)]
unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize, shared: Shared) {
    use crate::sync::{Ordering, bytes};
    for n in 0..len {
        let (from, to) = (from.wrapping_add(n), to.wrapping_add(n));
        if let Shared::From = shared {
            let byte = bytes::with(from, |byte| byte.load(Ordering::Relaxed));
            // SAFETY: the byte is the caller's to write.
            unsafe { to.write(byte) };
            continue;
        }
        // SAFETY: both bytes are mapped, and loom runs all its threads on one thread of the system.
        let byte = unsafe { from.read() };
        // SAFETY: as above.
        if unsafe { to.read() } != byte {
            bytes::with(to, |to| to.store(byte, Ordering::Relaxed));
            // SAFETY: as above.
            unsafe { to.write(byte) };
        }
    }
}

/// Both sides take the same instructions, as the compiler may split, repeat or move an ordinary
/// copy.
///
/// # Safety
/// Both sides have `len` bytes and do not overlap.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
#[inline]
unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize, _: Shared) {
    // SAFETY: all pieces lie within the `len` bytes that the caller vouches for; the last one
    // overlaps the one before instead of being shorter.
    unsafe {
        if len >= LONG {
            return long(from, to, len);
        }
        if len >= WIDE {
            let last = len - WIDE;
            let mut done = 0;
            while done < last {
                wide(from.add(done), to.add(done));
                done += WIDE;
            }
            return wide(from.add(last), to.add(last));
        }
        match len {
            8.. => {
                eight(from, to);
                eight(from.add(len - 8), to.add(len - 8));
            }
            4.. => {
                four(from, to);
                four(from.add(len - 4), to.add(len - 4));
            }
            2.. => {
                two(from, to);
                two(from.add(len - 2), to.add(len - 2));
            }
            1 => one(from, to),
            0 => {}
        }
    }
}

/// Length from which on the processor's own copy instruction is as fast as any loop.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
const LONG: usize = 512;

#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
mod pieces {
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    /// # Safety
    /// One byte at each side is the caller's to use.
    #[inline]
    pub(super) unsafe fn one(from: *const u8, to: *mut u8) {
        // SAFETY: the caller's promise; apart from a register, nothing else is touched.
        unsafe {
            asm!("mov {byte}, byte ptr [{from}]", "mov byte ptr [{to}], {byte}",
                byte = out(reg_byte) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As [`one`], for two bytes.
    #[inline]
    pub(super) unsafe fn two(from: *const u8, to: *mut u8) {
        // SAFETY: as in `one`.
        unsafe {
            asm!("mov {word:x}, word ptr [{from}]", "mov word ptr [{to}], {word:x}",
                word = out(reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As [`one`], for four bytes.
    #[inline]
    pub(super) unsafe fn four(from: *const u8, to: *mut u8) {
        // SAFETY: as in `one`.
        unsafe {
            asm!("mov {word:e}, dword ptr [{from}]", "mov dword ptr [{to}], {word:e}",
                word = out(reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As [`one`], for eight bytes.
    #[inline]
    pub(super) unsafe fn eight(from: *const u8, to: *mut u8) {
        // SAFETY: as in `one`.
        unsafe {
            asm!("mov {word}, qword ptr [{from}]", "mov qword ptr [{to}], {word}",
                word = out(reg) _, from = in(reg) from, to = in(reg) to,
                options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As [`one`], for sixteen bytes.
    #[inline]
    pub(super) unsafe fn wide(from: *const u8, to: *mut u8) {
        // SAFETY: as in `one`.
        unsafe {
            let piece: __m128i;
            asm!("movdqu {piece}, xmmword ptr [{from}]", piece = lateout(xmm_reg) piece,
                from = in(reg) from, options(nostack, preserves_flags, readonly));
            asm!("movdqu xmmword ptr [{to}], {piece}", piece = in(xmm_reg) piece,
                to = in(reg) to, options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As [`one`], for `len` bytes; the sides do not overlap.
    pub(super) unsafe fn long(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: as in `one`; the direction flag is clear, as the calling convention asks.
        unsafe {
            asm!("rep movsb", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") len => _,
                options(nostack, preserves_flags));
        }
    }
}
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
use pieces::{eight, four, long, one, two, wide};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_whole_and_nothing_beside_it() {
        let lens = if cfg!(miri) { 0..70 } else { 0..1100 };
        let source: Vec<u8> = (0..=255_u8).cycle().skip(1).take(1200).collect();
        for len in lens {
            let mut room = vec![0xEE; len + 20];
            // SAFETY: both vectors are this test's and long enough.
            unsafe { write(room.as_mut_ptr().add(10), &source[3..3 + len]) };
            assert_eq!(room[10..10 + len], source[3..3 + len], "written, {len} bytes");
            assert!(room[..10].iter().chain(&room[10 + len..]).all(|byte| *byte == 0xEE));
            let mut back = vec![0xDD; len + 2];
            // SAFETY: as above.
            unsafe { read(room.as_mut_ptr().add(10), &mut back[1..=len]) };
            assert_eq!(back[1..=len], source[3..3 + len], "read, {len} bytes");
            assert!(back[0] == 0xDD && back[len + 1] == 0xDD);
            // SAFETY: as above.
            unsafe { zero(room.as_mut_ptr().add(10), len) };
            assert!(room[10..10 + len].iter().all(|byte| *byte == 0));
            assert!(room[..10].iter().chain(&room[10 + len..]).all(|byte| *byte == 0xEE));
        }
    }

    #[test]
    fn words_are_read_wherever_they_begin() {
        let mut bytes = [9, 1, 0, 0, 0, 0, 0, 0, 2, 3];
        let start = bytes.as_mut_ptr();
        // SAFETY: the words lie within the array.
        let (word, half) = unsafe { (read_u64(start.add(1)), read_u16(start.add(8))) };
        assert_eq!((word, half), (0x0200_0000_0000_0001, 0x0302));
    }
}
