//! Links the recorder without a start-up file or a library: it must need nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-nostartfiles");
    println!("cargo:rustc-link-arg-cdylib=-nostdlib");
    // Every x86-64 loader reads the newer table; on other machines some read the older one only.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let style = if machine == "x86_64" { "gnu" } else { "both" };
    println!("cargo:rustc-link-arg-cdylib=-Wl,--hash-style={style}");
}
