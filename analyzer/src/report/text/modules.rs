//! The list of modules, and where their symbols come from.

use super::TextOptions;
use super::page::{Ink, Page};
use crate::report::columns::{columns, cut_start, escape, left};
use crate::report::format::{count, counted};
use crate::report::{ModuleList, ModuleSymbols};

/// Each module that a recorded call lies in; the others are counted.
#[must_use]
pub fn render_modules(list: &ModuleList, options: &TextOptions) -> String {
    let mut page = Page::new(options, 0);
    let (used, unused): (Vec<_>, Vec<_>) = list.modules.iter().partition(|module| module.sites > 0);
    let sum = |of: fn(&ModuleSymbols) -> u64| used.iter().map(|module| of(module)).sum::<u64>();
    let about = format!(
        "{} in which calls were recorded: {}, {} with a name, {} with a line",
        counted(used.len() as u64, "module"),
        counted(sum(|of| of.sites), "call site"),
        count(sum(|of| of.named)),
        count(sum(|of| of.with_lines)),
    );
    page.heading(Ink::Strong, "SYMBOLS", &about);
    for module in used {
        page.blank();
        one(&mut page, module);
    }
    if !unused.is_empty() {
        page.blank();
        let others = counted(unused.len() as u64, "other module");
        page.remark(&format!(
            "{others} without a recorded call (--format json lists them)"
        ));
    }
    super::warnings(&mut page, &list.warnings);
    page.finish()
}

fn one(page: &mut Page<'_>, module: &ModuleSymbols) {
    let name = module.path.as_deref().unwrap_or("module without a path");
    let name = escape(name);
    let head = cut_start(&name, page.width()).into_owned();
    let head = page.inked(Ink::Strong, &head);
    page.line(&head);
    let id = module.build_id.as_deref();
    let id = id.map_or_else(|| "no build id".to_owned(), |id| format!("build id {id}"));
    page.item(&format!(
        "{}, {} with a name, {} with a line · {id}",
        counted(module.sites, "call site"),
        count(module.named),
        count(module.with_lines),
    ));
    let widest = module.files.iter().map(|file| columns(told(file.rule)));
    let widest = widest.max().unwrap_or(0);
    for file in &module.files {
        let why = left(told(file.rule), widest);
        let room = page.width().saturating_sub(widest + 4);
        let path = escape(&file.path);
        page.line(&format!("  {why}  {}", cut_start(&path, room)));
    }
    for sentence in &module.missing {
        page.item(sentence);
    }
    tried(page, module);
}

/// Where what is missing was looked for.
fn tried(page: &mut Page<'_>, module: &ModuleSymbols) {
    if module.tried.is_empty() {
        return;
    }
    page.item("It was looked for here, in this order:");
    let (shown, rest) = page.cut(&module.tried);
    for place in shown {
        let why = escape(&place.why);
        let room = page.width().saturating_sub(columns(&why) + 6).max(16);
        let path = escape(&place.path);
        page.line(&format!("    {}: {why}", cut_start(&path, room)));
    }
    if !rest.is_empty() {
        let more = counted(rest.len() as u64, "more place");
        page.remark(&format!("  {more} (--format json lists them)"));
    }
}

/// A rule in words.
fn told(rule: &str) -> &str {
    match rule {
        "path" => "the module itself",
        "build-id" => "by its build id",
        "debug-link" => "by its debug link",
        "debug-dir" => "in a debug directory",
        "beside" => "beside the module",
        "debuginfod" => "debuginfod's cache",
        "alt-link" => "shared by debug files",
        "split-package" => "package of split units",
        "split-unit" => "split unit",
        other => other,
    }
}
