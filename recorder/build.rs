//! Links the recorder without a start-up file or a library: it must need nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-nostartfiles");
    println!("cargo:rustc-link-arg-cdylib=-nostdlib");
    println!("cargo:rustc-link-arg-cdylib=-Wl,--hash-style=both");
}
