//! Opening of a userfaultfd.

use std::io;

use terrace_sys::userfault::Userfault;

use crate::error::RegionError;

/// Opens a userfaultfd; the error says why this process cannot have one.
pub(crate) fn open_fault(region: &str) -> Result<Userfault, RegionError> {
    let refused = |what, source| RegionError::Platform { region: region.to_owned(), what, source };
    let fault = Userfault::open().map_err(|error| refused("opening userfaultfd", error))?;
    let features = fault.features();
    if !features.poisons || !features.protects {
        let old = io::Error::other("the kernel is older than Linux 6.6");
        return Err(refused("poisoning and protecting pages", old));
    }
    Ok(fault)
}
