//! The verbs about modules: where their symbols come from, and packing them.

use super::reading::{Stopped, Terminal, places, print};
use crate::cli::{Bundle, Symbols};
use heapwire::Options;
use heapwire::report::escape;
use heapwire::report::format::{bytes, counted};
use heapwire::report::text::render_modules;
use std::io::Write;

/// `heapwire symbols`: gives the exit status.
pub(crate) fn symbols(
    asked: &Symbols,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<u8, Stopped> {
    let options = Options {
        symbols: places(&asked.places),
        ..Options::default()
    };
    let list = heapwire::module_symbols(&asked.traces, &options)?;
    print(out, asked.format, &list, || {
        render_modules(&list, &terminal.options())
    })?;
    Ok(0)
}

/// `heapwire bundle`: gives the exit status.
pub(crate) fn bundle(
    asked: &Bundle,
    terminal: &Terminal,
    out: &mut dyn Write,
) -> Result<u8, Stopped> {
    let options = Options {
        symbols: places(&asked.places),
        ..Options::default()
    };
    let bundled = heapwire::bundle(&asked.traces, &options, &asked.output)?;
    let folder = asked.output.to_string_lossy();
    writeln!(
        out,
        "{}: {} with symbols, {}\n",
        escape(&folder),
        counted(bundled.files, "file"),
        bytes(bundled.bytes)
    )?;
    let text = render_modules(&bundled.modules, &terminal.options());
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}
