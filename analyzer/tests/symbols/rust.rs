//! Names of Rust functions, in both manglings.

use crate::made::{before, look_up, run, scratch};
use heapwire::address::FileAddress;
use heapwire::symbols::Options;
use std::fs;

const PROGRAM: &str = r#"#![allow(named_asm_labels)]
use std::hint::black_box;
macro_rules! label { ($name:literal) => {
    unsafe { std::arch::asm!(concat!(".globl ", $name, "\n", $name, ":")) }
} }
mod shop {
    pub struct Crate<T>(pub T);
    pub trait Pack { fn pack(&self) -> Box<[u8]>; }
    impl<T: Copy + Into<usize>> Pack for Crate<T> {
        #[inline(never)]
        fn pack(&self) -> Box<[u8]> {
            let packed = std::hint::black_box(vec![1; self.0.into()].into_boxed_slice());
            label!("of_trait");
            packed
        }
    }
}
#[inline(never)]
fn généric<T: Default>() -> Box<T> {
    let made = black_box(Box::new(T::default()));
    label!("of_generic");
    made
}
fn main() {
    use shop::Pack;
    black_box(shop::Crate(3u16).pack());
    black_box(généric::<[u64; 4]>());
    let closure = |n: usize| { let v = black_box(vec![0u8; n]); label!("of_closure"); v };
    black_box(black_box(closure)(black_box(5)));
}
"#;

#[test]
fn rust_names() {
    for (mangling, expected) in [
        (
            "legacy",
            [
                "<prog::shop::Crate<T> as prog::shop::Pack>::pack",
                "prog::généric",
                "prog::main::{{closure}}",
            ],
        ),
        (
            "v0",
            [
                "<prog::shop::Crate<u16> as prog::shop::Pack>::pack",
                "prog::généric::<[u64; 4]>",
                "prog::main::{closure#0}",
            ],
        ),
    ] {
        for level in [0, 2] {
            let built = scratch("rust_names");
            fs::write(built.join("prog.rs"), PROGRAM).unwrap();
            // Whoever does not know legacy mangling as an option has it anyway.
            let unstable = if mangling == "legacy" {
                ""
            } else {
                "-C symbol-mangling-version=v0"
            };
            run(
                &built,
                &format!(
                    "rustc --edition 2021 -g {unstable} -C opt-level={level} -C codegen-units=1 prog.rs"
                ),
            );
            let program = built.join("prog");
            let addresses: Vec<FileAddress> = ["of_trait", "of_generic", "of_closure"]
                .iter()
                .map(|label| before(&program, label))
                .collect();
            let found = look_up(&program, None, &addresses, &Options::default());
            for (frames, expected) in found.addresses.iter().zip(expected) {
                let names: Vec<&str> = frames
                    .iter()
                    .filter_map(|frame| frame.function.as_deref())
                    .collect();
                assert!(
                    names.contains(&expected),
                    "{mangling} {level}: {names:?}, not {expected}"
                );
                let files = frames.iter().filter_map(|frame| frame.file.as_deref());
                assert!(
                    files
                        .into_iter()
                        .any(|file| file == built.join("prog.rs").to_str().unwrap())
                );
            }
        }
    }
}
