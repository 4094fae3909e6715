//! Programs that end and leave a process behind.

use heapwire_tests::build::compile;
use heapwire_tests::run::{Run, command, list, live_blocks, number, prose};
use heapwire_tests::scratch::Scratch;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Ends as soon as a daemon is left of it, with a block if there is a third word; that ends when the file is there.
const DAEMON: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    int ends[2];
    if (pipe(ends)) return 2;
    if (fork()) {
        char ready;
        close(ends[1]);
        _exit(read(ends[0], &ready, 1) != 1);
    }
    setsid();
    if (fork()) _exit(0);
    if (daemon(1, 0)) return 3;
    void *volatile early = count > 2 ? malloc(40001) : 0;
    if (write(ends[1], "", 1) != 1) return 4;
    for (int i = 0; i < 6000 && access(words[1], F_OK); i++) usleep(10000);
    void *volatile late = malloc(40002);
    return early && !late;
}
"#;

#[test]
fn of_a_daemon_it_is_said_that_it_goes_on() {
    let scratch = Scratch::new("daemon");
    let source = scratch.write("daemon.c", DAEMON);
    let program = scratch.join("goes-on");
    compile(&source, &program, &["-O0", "-g"]);
    let started = |index: usize, words: &[&str], early: &[&str]| {
        let end = scratch.join(&format!("end-{index}"));
        let mut command = command();
        command.current_dir(scratch.path()).args(words).arg("--");
        let run = Run::of(command.arg(&program).arg(&end).args(early));
        assert_eq!(run.status, 0, "{run:?}");
        (prose(&run.stderr), end)
    };
    let goes_on = |said: &str, how: &str| {
        let (_, rest) = said.split_once("heapwire: process ").unwrap();
        let (pid, rest) = rest.split_once(" goes on").unwrap();
        assert!(rest.starts_with(how), "{said}");
        pid.to_owned()
    };
    let ended = |pid: &str, end: &Path| {
        File::create(end).unwrap();
        let process = Path::new("/proc").join(pid);
        for _ in 0..30_000 {
            if !process.exists() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{pid} does not end");
    };
    let sizes = |trace: &Path| {
        let live = live_blocks(trace);
        let processes = list(&live["processes"]).iter();
        let blocks = processes.flat_map(|of| list(&of["blocks"]));
        blocks
            .map(|block| number(&block["size"]))
            .collect::<Vec<_>>()
    };

    // It has not allocated when the program ends.
    let (said, end) = started(0, &["record", "-o", "silent.hwt"], &[]);
    assert!(said.contains("nothing was recorded so far"), "{said}");
    let pid = goes_on(&said, " and is still recorded, into silent.hwt");
    ended(&pid, &end);
    assert_eq!(sizes(&scratch.join("silent.hwt")), [40002]);

    // It has, into a file of its own, though its parent is gone.
    let (said, end) = started(1, &["record"], &["early"]);
    let pid = goes_on(&said, " and is still recorded, into goes-on.");
    assert!(said.contains(&format!("into goes-on.{pid}.hwt:")), "{said}");
    ended(&pid, &end);
    assert_eq!(
        sizes(&scratch.join(&format!("goes-on.{pid}.hwt"))),
        [40001, 40002]
    );

    let (said, end) = started(2, &["run"], &["early"]);
    let pid = goes_on(&said, ", and of what it does from now on nothing is kept");
    ended(&pid, &end);
}

/// Leaves a child behind that ends without a call of the allocator when the file is there.
const SILENT: &str = r#"
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    void *volatile block = malloc(40003);
    if (fork()) _exit(!block);
    for (int fd = 0; fd < 3; fd++) close(fd);
    for (int i = 0; i < 6000 && access(words[count - 1], F_OK); i++) usleep(10000);
    _exit(0);
}
"#;

#[test]
fn a_process_without_a_trace_is_not_said_to_have_one() {
    let scratch = Scratch::new("silent");
    let source = scratch.write("silent.c", SILENT);
    let program = scratch.join("silent");
    compile(&source, &program, &["-O0", "-g"]);
    let end = scratch.join("end");
    let mut command = command();
    command.current_dir(scratch.path()).args(["record", "--"]);
    let run = Run::of(command.arg(&program).arg(&end));
    File::create(&end).unwrap();
    let said = prose(&run.stderr);
    let (_, rest) = said.split_once(" goes on and is ").unwrap();
    assert!(rest.starts_with("still recorded: this is"), "{said}");
}
