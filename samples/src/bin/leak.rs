//! Loses blocks on purpose, for a first try:
//!
//! ```sh
//! cargo run --release -- run -- target/debug/leak
//! ```
//!
//! Names are copied by the C library, as when a program talks to one; most copies are never given back.

use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
    fn free(block: *mut c_void);
}

fn main() {
    for round in 0..10 {
        let name = copy_of(c"a name that nobody gives back");
        if round == 0 {
            // SAFETY: `name` came from strdup and is not used again.
            unsafe { free(name.cast()) };
        }
    }
}

#[inline(never)]
fn copy_of(name: &CStr) -> *mut c_char {
    // SAFETY: `name` ends with a zero byte.
    unsafe { strdup(name.as_ptr()) } //~ leak 9 x 30
}
