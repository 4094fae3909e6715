//! Links the recorder without a start-up file or a library: it must need nothing.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-nostartfiles");
    println!("cargo:rustc-link-arg-cdylib=-nostdlib");
    let machine = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    println!(
        "cargo:rustc-link-arg-cdylib=-Wl,--hash-style={}",
        hash_style(&machine)
    );
    // Processors before the sixth generation have no register for the thread pointer.
    println!("cargo:rustc-check-cfg=cfg(heapwire_kernel_helpers)");
    let target = env::var("TARGET").unwrap_or_default();
    if target.starts_with("armv5") || target.starts_with("armv4") {
        println!("cargo:rustc-cfg=heapwire_kernel_helpers");
    }
}

/// Which table of symbols: the older is read by all loaders; but where all read the newer, that will do, and on one machine
/// the older has words of another width, which linkers do not know.
fn hash_style(machine: &str) -> &'static str {
    match machine {
        "x86_64" | "s390x" => "gnu",
        _ => "sysv",
    }
}
