//! Memory policy of a thread: the NUMA node of its new pages.

use std::io;
use std::marker::PhantomData;

use crate::numa::{NODE_MASK_WORDS, node_mask};

/// Guard that allocates pages first touched by this thread on a node, while the node has free
/// memory (`MPOL_PREFERRED`). Dropping it restores the thread's previous policy.
///
/// The policy prefers the node and does not bind to it: if the node is full, a page comes from
/// another one ([`nodes_of`](crate::migrate::nodes_of) reports it), where a binding would make the
/// kernel reclaim memory or kill the process. A mapping with its own policy ([`Mapping::bind`])
/// keeps it. Setting and restoring take three system calls, about 2 us, and do not split the
/// mapping, as a policy for single pages would.
///
/// [`Mapping::bind`]: crate::map::Mapping::bind
#[derive(Debug)]
pub struct PreferredNode {
    before: Policy,
    /// Makes the guard `!Send`: the policy belongs to the thread that set it.
    _of_thread: PhantomData<*const ()>,
}

/// A mode of `linux/mempolicy.h` with its flags, and its nodes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Policy {
    mode: libc::c_int,
    nodes: [u64; NODE_MASK_WORDS],
}

impl PreferredNode {
    /// Sets the policy of this thread.
    ///
    /// # Errors
    /// Fails if the node does not exist or has no memory, or the kernel has no policies.
    pub fn enter(node: u32) -> io::Result<PreferredNode> {
        let nodes = node_mask(node)?;
        let before = Policy::of_thread()?;
        Policy { mode: libc::MPOL_PREFERRED, nodes }.set()?;
        Ok(PreferredNode { before, _of_thread: PhantomData })
    }
}

impl Drop for PreferredNode {
    fn drop(&mut self) {
        // The kernel accepts a policy that it returned. If it does not, memory comes from other
        // nodes, which is not fatal.
        let _ = self.before.set();
    }
}

/// Bits of a mask plus one: the kernel reads one bit less than it is given.
const MASK_BITS: usize = 64 * NODE_MASK_WORDS + 1;

impl Policy {
    fn of_thread() -> io::Result<Policy> {
        let mut policy = Policy { mode: 0, nodes: [0; NODE_MASK_WORDS] };
        // SAFETY: both are locals of the lengths that the kernel is given; the address is null.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut policy.mode,
                policy.nodes.as_mut_ptr(),
                64 * NODE_MASK_WORDS,
                std::ptr::null::<u8>(),
                0,
            )
        };
        if result == 0 { Ok(policy) } else { Err(io::Error::last_os_error()) }
    }

    fn set(&self) -> io::Result<()> {
        let empty = self.nodes.iter().all(|word| *word == 0);
        let nodes = if empty { std::ptr::null() } else { self.nodes.as_ptr() };
        // SAFETY: the mask is borrowed for the call and has the length that the kernel is given.
        let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, nodes, MASK_BITS) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::map::Mapping;
    use crate::migrate::nodes_of;
    use crate::numa::nodes;
    use crate::size::PAGE_BYTES;

    #[test]
    fn pages_come_from_the_preferred_node_while_the_guard_lives() {
        let before = Policy::of_thread().expect("told");
        let mapping = Mapping::reserve(64 * PAGE_BYTES).expect("address space");
        let _ = mapping.advise_huge(false);
        for (at, node) in nodes().iter().enumerate() {
            let guard = PreferredNode::enter(node.id).expect("a node with memory");
            let set = Policy::of_thread().expect("told");
            let mask = node_mask(node.id).expect("possible");
            assert_eq!(set, Policy { mode: libc::MPOL_PREFERRED, nodes: mask });
            let offset = at * 8 * PAGE_BYTES;
            mapping.populate(offset, 8 * PAGE_BYTES).expect("memory");
            drop(guard);
            assert_eq!(Policy::of_thread().expect("told"), before);
            let offsets: Vec<usize> = (0..8).map(|page| offset + page * PAGE_BYTES).collect();
            let found = nodes_of(&mapping, &offsets).expect("told");
            assert_eq!(found, vec![node.id.cast_signed(); 8]);
        }
    }

    #[test]
    fn guards_nest_and_leave_other_threads_alone() {
        let node = nodes()[0].id;
        let outer = PreferredNode::enter(node).expect("a node with memory");
        let set = Policy::of_thread().expect("told");
        drop(PreferredNode::enter(nodes()[nodes().len() - 1].id).expect("a node with memory"));
        assert_eq!(Policy::of_thread().expect("told"), set);
        drop(outer);
        let guard = PreferredNode::enter(node).expect("a node with memory");
        // A thread inherits the policy of the thread that starts it, and resets only its own.
        std::thread::scope(|scope| {
            scope.spawn(|| Policy { mode: libc::MPOL_DEFAULT, nodes: [0; NODE_MASK_WORDS] }.set());
        });
        assert_eq!(Policy::of_thread().expect("told"), set);
        drop(guard);
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let before = Policy::of_thread().expect("told");
        for node in [900, 64 * 16, u32::MAX] {
            assert!(PreferredNode::enter(node).is_err(), "{node}");
        }
        assert_eq!(Policy::of_thread().expect("told"), before);
    }
}
