//! Small programs to be traced, one behaviour a file.
//!
//! C programs lie in `c/`, C++ ones in `cxx/`, Rust ones in `src/bin/`. A program says in comments what a report on it must
//! show, at the line where it happens:
//!
//! | comment | meaning |
//! |---|---|
//! | `//~ leak 3 x 48` | this line handed out three blocks of 48 bytes that are never released |
//! | `//~ inherited 1 x 48` | so, and a forked child never releases what it inherited |
//! | `//~ perhaps inherited 90` | a child may inherit blocks of this line, or none |
//! | `//~ double-free`, `//~ invalid-free`, `//~ mismatched-free x 2` | this line releases wrongly, so often |
//! | `//@ status 134` | exit status of the program, 128 + signal; otherwise 0 |
//! | `//@ ends exec normal` | how its process images end, in order of their beginning; otherwise `normal` |
//! | `//@ totals releases=4 …` | totals of its first process image |
//! | `//@ flags -pthread` | passed to the compiler |
//! | `//@ plugin plugins/first.c` | built as a shared library; its path is the next argument of the program |
//!
//! What no comment mentions must not be reported. The readers of these comments are in `tests/src/expect.rs`.
