//! The recorder as an archive, for programs that are linked statically, and what the linker must be told with it.

use anyhow::{Context, Result};
use object::{Object, ObjectSymbol};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What stands before the name of a hook.
const HOOK: &str = "__wrap_";
/// What stands before the name of the function that it calls.
const REAL: &str = "__real_";

/// An archive (System V's `ar`) with one member, the relocatable `object`, and the index that linkers look its symbols up in.
pub(crate) fn archive(object: &[u8]) -> Result<Vec<u8>> {
    let names = Symbols::of(object)?.defined;
    let count = u32::try_from(names.len()).context("too many symbols")?;
    let text: usize = names.iter().map(|name| name.len() + 1).sum();
    let index_length = (4 + 4 * names.len() + text).next_multiple_of(2);
    let mut out = b"!<arch>\n".to_vec();
    push_header(&mut out, "/", index_length);
    let member = u32::try_from(out.len() + index_length).context("too many symbols")?;
    out.extend(count.to_be_bytes());
    for _ in &names {
        out.extend(member.to_be_bytes());
    }
    for name in &names {
        out.extend(name.as_bytes());
        out.push(0);
    }
    out.resize(out.len().next_multiple_of(2), 0);
    push_header(&mut out, "heapwire.o/", object.len());
    out.extend(object);
    out.resize(out.len().next_multiple_of(2), b'\n');
    Ok(out)
}

/// A member's header: name, date, owner, group, mode, length, all in columns. Nothing of this machine.
fn push_header(out: &mut Vec<u8>, name: &str, length: usize) {
    let header = format!(
        "{name:<16}{:<12}{:<6}{:<6}{:<8}{length:<10}`\n",
        0, 0, 0, 644
    );
    out.extend(header.bytes());
}

/// Options of a compiler that links a program with the archive of `object`, which lies at `path`, one a line.
///
/// Calls of each function that has a hook go to the hook (`--wrap`). What the hook calls is to be there if any library has it, whose
/// members are not looked at for the hook's weak reference alone (`-u`).
pub(crate) fn link_options(path: &Path, object: &[u8]) -> Result<Vec<u8>> {
    let symbols = Symbols::of(object)?;
    let mut out = Vec::new();
    // It is linked in although the program itself may call nothing of it: its libraries do.
    if let Some(name) = symbols.hooks().next() {
        writeln!(out, "-Wl,-u,{HOOK}{name}")?;
    }
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'"' | b'\'') {
            out.push(b'\\'); // as files of options have it
        }
        out.push(*byte);
    }
    out.push(b'\n');
    for name in symbols.hooks() {
        writeln!(out, "-Wl,--wrap={name}")?;
    }
    let real = symbols.wanted.iter().filter(|name| !name.starts_with(REAL));
    for name in symbols.hooks().chain(real.copied()) {
        writeln!(out, "-Wl,-u,{name},--ignore-unresolved-symbol={name}")?;
    }
    Ok(out)
}

/// What the object defines for others, and what it would like others to define.
struct Symbols<'o> {
    defined: BTreeSet<&'o str>,
    wanted: BTreeSet<&'o str>,
}

impl<'o> Symbols<'o> {
    fn of(object: &'o [u8]) -> Result<Self> {
        let file = object::File::parse(object).context("the recorder's object is damaged")?;
        let names = |is_defined| {
            let symbols = file
                .symbols()
                .filter(move |symbol| symbol.is_global() && symbol.is_undefined() != is_defined);
            symbols
                .filter_map(|symbol| symbol.name().ok())
                .filter(|name| !name.is_empty())
                .collect()
        };
        Ok(Self {
            defined: names(true),
            wanted: names(false),
        })
    }

    fn hooks(&self) -> impl Iterator<Item = &'o str> {
        self.defined
            .iter()
            .filter_map(|name| name.strip_prefix(HOOK))
    }
}
