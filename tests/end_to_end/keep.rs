//! A small program whose one call of `malloc` is known to the byte.

use heapwire_tests::run::Run;
use heapwire_tests::scratch::Scratch;
use object::{Object, ObjectSection, ObjectSymbol};
use std::process::Command;

/// The line of the call.
pub(crate) const LINE: u32 = 4;

const SOURCE: &str = "\
#include <stdlib.h>
__attribute__((noinline)) void *keep(unsigned n)
{
    void *volatile block = malloc(n); return block; /* line 4 */
}
int main(void) { return keep(3) == 0; }
";

/// Where things are in the file of the program.
pub(crate) struct Keep {
    /// Address of the function `keep`.
    pub(crate) function: u64,
    /// The return address of the call in it.
    pub(crate) call: u64,
}

impl Keep {
    /// Builds the program as `name`, with debug information and these options.
    pub(crate) fn build(scratch: &Scratch, name: &str, options: &[&str]) -> Self {
        let source = scratch.write("keep.c", SOURCE);
        let program = scratch.join(name);
        let mut compiler = Command::new("cc");
        compiler.args(["-g", "-O0", "-rdynamic", "-fno-pic"]);
        let built = Run::of(compiler.args(options).arg("-o").arg(&program).arg(source));
        assert_eq!(built.status, 0, "{}", built.stderr);
        let bytes = std::fs::read(&program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let mut symbols = file.symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok("keep")).unwrap();
        let section = file.section_by_index(symbol.section_index().unwrap());
        let code = section.unwrap().data_range(symbol.address(), symbol.size());
        // The one call: a byte that says so, and four of where to.
        let call = code.unwrap().unwrap().iter().position(|byte| *byte == 0xE8);
        Self {
            function: symbol.address(),
            call: symbol.address() + call.unwrap() as u64 + 5,
        }
    }
}
