//! The same bytes give the same report, for any number of threads.

use heapwire_tests::build::Sample;
use heapwire_tests::run::{Run, command, record};
use heapwire_tests::scratch::Scratch;

#[test]
fn one_thread_and_many_say_the_same() {
    let scratch = Scratch::new("determinism");
    for path in ["c/threads_64.c", "cxx/containers.cpp", "c/fork_threads.c"] {
        let sample = Sample::build(path, &scratch);
        let trace = record(&sample.program, &sample.arguments, &scratch).trace;
        for format in ["json", "text"] {
            let report = |threads: &str| {
                let run = Run::of(
                    command()
                        .env("RAYON_NUM_THREADS", threads)
                        .args(["report", "--format", format])
                        .arg(&trace),
                );
                assert_eq!(run.status, 0, "{}", run.stderr);
                run.stdout
            };
            let one = report("1");
            assert!(one.len() > 200, "{one}");
            for threads in ["1", "2", "7"] {
                assert_eq!(
                    one,
                    report(threads),
                    "{path} as {format} by {threads} threads"
                );
            }
        }
    }
}
