//! Logs of glibc's mtrace as inputs of every verb that reads traces: all forms that lines have had, and all that happens
//! to logs on their way.

mod damage;
mod forms;
mod releases;
mod sessions;
mod verbs;

use heapwire_tests::run::{list, number, report};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;

/// The report on a log with this text.
fn reported(log: impl AsRef<[u8]>) -> Value {
    let scratch = Scratch::new("log");
    report(&scratch.write("log", log))
}

/// The only session of a report.
fn only(report: &Value) -> &Value {
    let [session] = list(&report["processes"]) else {
        panic!("not one session: {report}");
    };
    session
}

/// Blocks and bytes live at the end, of each session.
fn live(report: &Value) -> Vec<(u64, u64)> {
    let totals = list(&report["processes"]).iter().map(|of| &of["totals"]);
    totals
        .map(|of| (number(&of["live_blocks"]), number(&of["live_bytes"])))
        .collect()
}

/// Kind, line and certainty of each error.
fn errors(session: &Value) -> Vec<(&str, u64, bool)> {
    list(&session["errors"])
        .iter()
        .map(|error| {
            let kind = error["kind"].as_str().unwrap();
            let certain = error["certain"].as_bool().unwrap();
            (kind, number(&error["log_line"]), certain)
        })
        .collect()
}

const PLAIN: &str = "\
= Start
@ ./gw:[0x1233] + 0x55d0c0de02a0 0x10
@ ./gw:(poll+1d)[0x1250] + 0x55d0c0de02c0 0x20
@ /lib/libc.so.6:(__strdup+1a)[0x9e9aa] + 0x55d0c0de02f0 0x5
@ ./gw:[0x1260] < 0x55d0c0de02c0
@ ./gw:[0x1260] > 0x55d0c0de0310 0x40
@ ./gw:[0x1270] ! 0x55d0c0de0310 0xffffffffffffe000
@ ./gw:[0x1280] + (nil) 0xffffffffffffe000
@ ./gw:[0x1290] - 0x55d0c0de02a0
@ ./gw:[0x12a0] + 0x55d0c0de02a0 0
= End
";
