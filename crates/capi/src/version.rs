//! Version of the library.

use std::ffi::{CStr, c_char};

const VERSION: &CStr = version();

const fn version() -> &'static CStr {
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    }
}

/// Returns the version of the library, such as "0.1.0". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_version() -> *const c_char {
    VERSION.as_ptr()
}
