//! The program comes first: what it prints, returns, sees and leaves behind is as without the recorder.

use heapwire_tests::build::{Sample, compile, recorder};
use heapwire_tests::run::{Run, report, without_recorder};
use heapwire_tests::scratch::Scratch;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs `program` plainly and with the library preloaded, and gives both.
fn twice(program: &mut dyn FnMut() -> Command, library: &Path, out: &Path) -> (Run, Run) {
    let plain = Run::of(&mut without_recorder(program()));
    let mut traced = without_recorder(program());
    traced.env("LD_PRELOAD", library).env("HEAPWIRE_OUT", out);
    (plain, Run::of(&mut traced))
}

/// Compiles `text` as a C program.
fn c_program(scratch: &Scratch, name: &str, text: &str, flags: &[&str]) -> std::path::PathBuf {
    let source = scratch.write(&format!("{name}.c"), text);
    let program = scratch.join(name);
    compile(&source, &program, flags);
    program
}

#[test]
fn both_streams_and_the_status_are_the_same() {
    let scratch = Scratch::new("streams");
    let library = recorder(&scratch);
    let programs: &[&[&str]] = &[
        &["sh", "-c", "echo out; echo err >&2; exit 3"],
        &["sort", "-r", "/etc/passwd"],
        &["ls", "-l", "/usr", "/nonexistent"],
        &[
            "sh",
            "-c",
            "printf '%s\\n' $(seq 500) | grep 7 | sort | head -n 3; kill -9 $$",
        ],
    ];
    for words in programs {
        let mut program = || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        let (plain, traced) = twice(&mut program, &library, &scratch.join("%e.%p.hwt"));
        assert_eq!(traced, plain, "{words:?}");
    }
}

#[test]
fn errno_is_what_the_allocator_left() {
    let scratch = Scratch::new("errno");
    let library = recorder(&scratch);
    let program = c_program(&scratch, "errno", ERRNO, &[]);
    let (plain, traced) = twice(
        &mut || Command::new(&program),
        &library,
        &scratch.join("t.hwt"),
    );
    assert_eq!(plain.stdout.lines().count(), 7, "{plain:?}");
    assert_eq!(traced, plain);
}

const ERRNO: &str = r#"
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void say(const char *what, const void *block) { printf("%s %d %d\n", what, block != NULL, errno); }
int main(void) {
    static char buffer[4096];
    volatile size_t much = SIZE_MAX / 2;
    void *block = NULL;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    errno = 77; say("malloc", malloc(10));
    errno = 77; say("malloc fails", malloc(much));
    errno = 77; say("calloc overflows", calloc(much, 4));
    errno = 77; free(malloc(10)); say("free", NULL);
    errno = 77; say("realloc fails", realloc(malloc(10), much));
    errno = 77; printf("%d ", posix_memalign(&block, 3, 10)); say("posix_memalign", block);
    for (int i = 0; i < 100000; i++) { errno = 77; free(malloc(20)); if (errno != 77) return 1; }
    say("after many", NULL);
    return 0;
}
"#;

#[test]
fn dispositions_masks_and_limits_are_untouched() {
    let scratch = Scratch::new("signals");
    let library = recorder(&scratch);
    let program = c_program(&scratch, "signals", SIGNALS, &[]);
    let (plain, traced) = twice(
        &mut || Command::new(&program),
        &library,
        &scratch.join("t.hwt"),
    );
    assert!(plain.stdout.contains("mask"), "{plain:?}");
    assert_eq!(traced, plain);
}

/// Whichever way it asks, a program sees its own dispositions.
#[test]
fn dispositions_are_the_programs_own_by_every_function() {
    let scratch = Scratch::new("dispositions");
    let library = recorder(&scratch);
    let program = c_program(&scratch, "dispositions", DISPOSITIONS, &[]);
    for out in [scratch.join("t.hwt"), "/dev/null".into()] {
        let (plain, traced) = twice(&mut || Command::new(&program), &library, &out);
        assert!(plain.stdout.contains("sigset 7 0 1"), "{plain:?}");
        assert_eq!(traced, plain);
    }
}

const DISPOSITIONS: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*handler)(int);
static struct { const char *name; handler (*set)(int, handler); } ways[] = {
    { "signal", signal }, { "ssignal", ssignal }, { "sysv", sysv_signal }, { "sigset", sigset },
};
static int shown(handler it) { return it == SIG_DFL ? 0 : it == SIG_IGN ? 1 : 2; }
int main(void) {
    int signals[] = { SIGBUS, SIGSEGV, SIGABRT, SIGILL, SIGFPE, SIGUSR1 };
    free(malloc(20));
    for (int way = 0; way < 4; way++)
        for (int i = 0; i < 6; i++) {
            int first = shown(ways[way].set(signals[i], SIG_IGN)), second = shown(ways[way].set(signals[i], SIG_DFL));
            printf("%s %d %d %d\n", ways[way].name, signals[i], first, second);
        }
    return 0;
}
"#;

const SIGNALS: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
int main(void) {
    sigset_t mask;
    struct itimerval timer;
    for (int i = 0; i < 5000; i++) free(malloc(20));
    for (int i = 1; i < 65; i++) {
        struct sigaction action = {0};
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL) printf("signal %d %d\n", i, action.sa_handler == SIG_IGN);
    }
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 65; i++) if (sigismember(&mask, i)) printf("blocked %d\n", i);
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit limit;
        getrlimit(i, &limit);
        printf("limit %d %lu %lu\n", i, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    }
    for (int i = 0; i < 3; i++) { getitimer(i, &timer); printf("timer %ld\n", (long)timer.it_value.tv_sec); }
    printf("mask %o\n", umask(0));
    FILE *threads = fopen("/proc/self/status", "r");
    char line[256];
    while (fgets(line, sizeof line, threads)) if (line[0] == 'T' && line[1] == 'h') fputs(line, stdout);
    return 0;
}
"#;

#[test]
fn the_lowest_free_descriptor_is_the_same() {
    let scratch = Scratch::new("descriptors");
    let library = recorder(&scratch);
    let program = c_program(&scratch, "descriptors", DESCRIPTORS, &[]);
    let (plain, traced) = twice(
        &mut || Command::new(&program),
        &library,
        &scratch.join("t.hwt"),
    );
    assert_eq!(plain.stdout, "3 4 5\n3\n");
    assert_eq!(traced, plain);
}

const DESCRIPTORS: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    free(malloc(8));
    int a = open("/dev/null", O_RDONLY), b = dup(a), c = dup(b);
    printf("%d %d %d\n", a, b, c);
    close(a);
    for (int i = 0; i < 20000; i++) free(malloc(8));
    printf("%d\n", dup(b));
    return 0;
}
"#;

#[test]
fn a_full_disk_and_a_reader_that_left_change_nothing() {
    let scratch = Scratch::new("full");
    let library = recorder(&scratch);
    let sample = Sample::build("cxx/containers.cpp", &scratch);
    for out in ["/dev/full", "/nonexistent/folder/t.hwt", "fd:77"] {
        let (plain, traced) = twice(
            &mut || Command::new(&sample.program),
            &library,
            Path::new(out),
        );
        assert_eq!(
            (traced.status, &traced.stdout),
            (plain.status, &plain.stdout),
            "{out}"
        );
    }
    let script = "exec 9> >(head -c 100 > /dev/null); exec \"$0\"";
    let mut program = || {
        let mut command = Command::new("bash");
        command.args(["-c", script]).arg(&sample.program);
        command
    };
    let (plain, traced) = twice(&mut program, &library, Path::new("fd:9"));
    assert_eq!(
        (traced.status, &traced.stdout),
        (plain.status, &plain.stdout),
        "a reader that left"
    );
}

#[test]
fn a_file_that_is_no_trace_stays_as_it_is() {
    let scratch = Scratch::new("kept");
    let library = recorder(&scratch);
    let notes = scratch.write("notes.txt", "precious\n");
    let run = Run::of(
        without_recorder(Command::new("sort"))
            .arg("/etc/passwd")
            .env("LD_PRELOAD", &library)
            .env("HEAPWIRE_OUT", &notes),
    );
    assert_eq!(run.status, 0);
    assert_eq!(fs::read_to_string(&notes).unwrap(), "precious\n");
}

#[test]
fn several_programs_share_a_file() {
    let scratch = Scratch::new("share");
    let library = recorder(&scratch);
    let sample = Sample::build("c/leak_loop.c", &scratch);
    let trace = scratch.join("t.hwt");
    let script = "\"$0\" & \"$0\" & \"$0\" & wait; exec \"$0\"";
    let run = Run::of(
        without_recorder(Command::new("bash"))
            .args(["-c", script])
            .arg(&sample.program)
            .env("LD_PRELOAD", &library)
            .env("HEAPWIRE_OUT", &trace),
    );
    assert_eq!(run.status, 0, "{run:?}");
    let report = report(&trace);
    let name = |process: &serde_json::Value| {
        process["exe"]
            .as_str()
            .unwrap_or_default()
            .ends_with("/leak_loop")
    };
    let processes = report["processes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|process| name(process));
    let leaks: Vec<u64> = processes
        .map(|process| process["totals"]["live_blocks"].as_u64().unwrap())
        .collect();
    assert_eq!(leaks, [3; 4], "{report:#}");
    assert_eq!(report["trace"]["damaged_bytes"], 0);
}
