//! What `check` counts, says of it, and answers by its exit status.

use heapwire_tests::build::compile;
use heapwire_tests::run::{on, record, run};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{Record, Writer};
use std::path::Path;

/// The exit status and the lines on standard error.
fn checked(words: &[&str], trace: &Path) -> (i32, Vec<String>) {
    let run = on(&[&["check"], words].concat(), trace);
    let lines = run.stderr.lines().map(str::to_owned);
    (run.status, lines.collect())
}

#[track_caller]
fn says(words: &[&str], trace: &Path, status: i32, expected: &[&str]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|it| format!("heapwire: {it}"))
        .collect();
    assert_eq!(checked(words, trace), (status, expected), "{words:?}");
}

#[test]
fn each_outcome_has_a_status_and_a_line_that_says_it() {
    let scratch = Scratch::new("check");
    let trace = |name: &str, writer: &mut Writer| scratch.write(name, writer.bytes());
    let clean = trace(
        "clean.hwt",
        Writer::new().malloc(0x1000, 48).free(0x1000).end(),
    );
    says(&[], &clean, 0, &["found nothing: exit status 0"]);
    let leaky = trace("leaky.hwt", Writer::new().malloc(0x1000, 48).end());
    let found = "found 1 leaked block (48 B): exit status 1";
    says(&[], &leaky, 1, &[found]);
    says(&["--format", "json"], &leaky, 1, &[found]);
    let mut writer = Writer::new();
    let both = writer.malloc(0x1000, 48).free(0x1000).free(0x1000);
    let twice = trace("twice.hwt", both.malloc(0x2000, 9).end());
    let found = "found 1 wrong release and 1 leaked block (9 B): exit status 1";
    says(&[], &twice, 1, &[found]);
    assert_eq!(run(["check", "--no-such-option"]).status, 2);
    assert_eq!(run(["check", "/nonexistent/trace.hwt"]).status, 3);
    let cut = trace("cut.hwt", Writer::new().malloc(0x1000, 48).free(0x1000));
    let nothing = "found nothing, but the trace is not complete: exit status";
    says(&[], &cut, 0, &[&format!("{nothing} 0")]);
    says(&["--strict"], &cut, 4, &[&format!("{nothing} 4")]);
    let live = trace("live.hwt", Writer::new().malloc(0x1000, 48));
    let aside = "1 block that was live where a process did not end by itself need not be a leak, so it is not counted";
    says(&[], &live, 0, &[aside, &format!("{nothing} 0")]);
}

#[test]
fn leaks_of_the_system_count_only_if_asked() {
    let scratch = Scratch::new("system");
    let system = |writer: &mut Writer| {
        writer.module(0x70_0000, 0x1000, "/usr/lib/libc.so.6");
        for address in [0x8000, 0x9000] {
            writer.record(Record {
                op: 1,
                ptr: address,
                size: 1024,
                pc: 0x70_0100,
                base: 0x70_0000,
                ..Record::default()
            });
        }
    };
    let mut writer = Writer::new();
    system(&mut writer);
    let clean = scratch.write("clean.hwt", writer.end().bytes());
    let aside = "2 leaked blocks in libraries of the system left aside (--system counts them)";
    says(&[], &clean, 0, &[aside, "found nothing: exit status 0"]);
    assert!(on(&["check"], &clean).stdout.contains("libc.so.6"));
    let found = "found 2 leaked blocks (2.0 KiB): exit status 1";
    says(&["--system"], &clean, 1, &[found]);

    let mut writer = Writer::new();
    system(writer.malloc(0x1000, 8));
    let leaky = scratch.write("leaky.hwt", writer.end().bytes());
    let found = "found 1 leaked block (8 B): exit status 1";
    says(&[], &leaky, 1, &[aside, found]);
}

#[test]
fn an_uncertain_error_does_not_count() {
    let scratch = Scratch::new("uncertain");
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 8)
        .free(0x1000)
        .lose(1)
        .free(0x1000)
        .end();
    let trace = scratch.write("t.hwt", writer.bytes());
    let aside = "1 wrong release left aside that is not certain";
    let nothing = "found nothing, but the trace is not complete: exit status 0";
    says(&[], &trace, 0, &[aside, nothing]);
}

/// Its characters are all that is leaked, and a function in the C++ library has allocated them.
#[test]
fn a_string_is_the_programs_wherever_its_code_is() {
    let scratch = Scratch::new("string");
    let text = "#include <new>\n#include <string>\nalignas(std::string) static char room[sizeof(std::string)];\nint main() {\n    auto *text = new (room) std::string;\n    text->append(3000, 'x');\n    return 0;\n}\n";
    let source = scratch.write("main.cpp", text);
    let program = scratch.join("prog");
    compile(&source, &program, &[]);
    let trace = record(&program, &[], &scratch).trace;
    for words in [&[][..], &["--no-demangle"]] {
        let (status, lines) = checked(words, &trace);
        let verdict = lines.last().unwrap();
        assert_eq!(status, 1, "{lines:?}");
        assert!(
            verdict.contains("found 1 leaked block (2.9 KiB)"),
            "{verdict}"
        );
    }
}
