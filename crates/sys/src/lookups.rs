//! Name lookups of a statically linked program. The C library reads from `/etc/nsswitch.conf` which
//! modules to ask, and loads them even into a static program. A module of another version of the
//! library then crashes the program: a client built on Debian 12 died on Debian 13.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

/// What is looked up, and the modules for it that are part of the library itself.
const BUILT_IN: [(&CStr, &CStr); 7] = [
    (c"hosts", c"files dns"),
    (c"passwd", c"files"),
    (c"group", c"files"),
    (c"initgroups", c"files"),
    (c"networks", c"files"),
    (c"protocols", c"files"),
    (c"services", c"files"),
];

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, modules: *const c_char) -> c_int;
}

/// Uses only the modules that are part of the program. Call it before other threads exist.
pub fn use_built_in_modules() {
    for (database, modules) in BUILT_IN {
        // SAFETY: both are C strings that live forever. A failure changes nothing: the names are
        // the library's own, so it can only mean that memory is exhausted.
        unsafe { __nss_configure_lookup(database.as_ptr(), modules.as_ptr()) };
    }
}
