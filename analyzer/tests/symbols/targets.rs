//! Files for other machines: both byte orders, both word sizes, marked addresses and delay slots.

use crate::made::{is_installed, look_up, run, scratch, skip};
use heapwire::address::{FileAddress, Machine, ReturnAddress, RuntimeAddress};
use heapwire::symbols::Options;
use object::{Object, ObjectSymbol};
use std::fs;

/// `call` is the return address of the call in line 4, of a function that is merged into `leak`.
const PROGRAM: &str = r#"void *take(unsigned);
void *volatile kept;
static inline __attribute__((always_inline)) void merged(void) {
    kept = take(3); __asm__ volatile(".globl call\ncall:");
}
__attribute__((noinline)) void leak(void) {
    merged();
    kept = 0;
}
__attribute__((noinline)) void *take(unsigned n) { return (void *)(unsigned long)n; }
#ifdef __cplusplus
extern "C"
#endif
void _start(void) {
    leak();
    for (;;) ;
}
"#;

#[test]
fn other_machines() {
    if !is_installed("clang") || !is_installed("ld.lld") {
        return skip("clang or lld", "clang, lld");
    }
    for (target, flags, is_little, is_64) in [
        ("x86_64-linux-gnu", "", true, true),
        ("i386-linux-gnu", "", true, false),
        ("aarch64-linux-gnu", "", true, true),
        ("armv7-linux-gnueabihf", "-mthumb", true, false),
        ("armv7-linux-gnueabihf", "-marm", true, false),
        ("riscv64-linux-gnu", "-mno-relax", true, true),
        ("mips-linux-gnu", "-mno-abicalls", false, false),
        ("mipsel-linux-gnu", "-mno-abicalls", true, false),
        ("powerpc-linux-gnu", "", false, false),
        ("powerpc64-linux-gnu", "-mabi=elfv2", false, true),
    ] {
        let in_c = [2, 3, 4, 5].map(|version| (version, "a.c", ["merged", "leak"]));
        let in_cpp = [4, 5].map(|version| (version, "a.cpp", ["merged()", "leak()"]));
        for (version, file, [merged, leak]) in in_c.into_iter().chain(in_cpp) {
            let built = scratch("other_machines");
            fs::write(built.join(file), PROGRAM).unwrap();
            run(
                &built,
                &format!(
                    "clang --target={target} {flags} -gdwarf-{version} -O1 -ffreestanding -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables -fno-pic -c {file}"
                ),
            );
            run(&built, "ld.lld -static -o prog a.o");
            let program = built.join("prog");
            let bytes = fs::read(&program).unwrap();
            let elf = object::File::parse(&*bytes).unwrap();
            assert_eq!((elf.is_little_endian(), elf.is_64()), (is_little, is_64));
            let machine = Machine::of_elf(u64::from(u16_at(&bytes, 18, is_little)));
            // A processor in Thumb state returns to an odd address.
            let mark = u64::from(flags == "-mthumb");
            let label = elf.symbol_by_name("call").unwrap().address();
            let call = ReturnAddress(RuntimeAddress(label | mark)).call(machine);
            let found = look_up(&program, None, &[FileAddress(call.0)], &Options::default());
            let frames: Vec<_> = found.addresses[0]
                .iter()
                .map(|frame| (frame.function.as_deref().unwrap(), frame.line.unwrap()))
                .collect();
            let case = format!("{file} {target} {flags} DWARF {version}");
            assert_eq!(frames, [(merged, 4), (leak, 7)], "{case}");
            assert_eq!(found.notes, [] as [String; 0], "{case}");
            // Without debug information the symbol table has the function.
            run(&built, "llvm-strip -g prog");
            let found = look_up(&program, None, &[FileAddress(call.0)], &Options::default());
            let function = found.addresses[0]
                .first()
                .and_then(|frame| frame.function.as_deref());
            assert_eq!(function, Some(leak), "{case}");
        }
    }
}

fn u16_at(bytes: &[u8], at: usize, is_little: bool) -> u16 {
    let bytes = [bytes[at], bytes[at + 1]];
    if is_little {
        u16::from_le_bytes(bytes)
    } else {
        u16::from_be_bytes(bytes)
    }
}
