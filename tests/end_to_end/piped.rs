//! Damage to the packed frames that a program has written into a pipe.

use super::transfers::{
    ALL, EARLY, LATE, assert_damage_in_phase_one, damage, left, told, warnings,
};
use heapwire_tests::build::{compile, heapwire};
use heapwire_tests::run::{Run, list, without_recorder};
use heapwire_tests::scratch::Scratch;
use serde_json::Value;
use std::process::Command;

/// What a trace of this program is made of: many calls, two blocks that stay, many calls, three that stay, and some calls more.
fn recorded(scratch: &Scratch) -> Vec<u8> {
    let text = format!(
        "#include <stdlib.h>\nstatic void pass(long pairs) {{ for (long i = 0; i < pairs; i++) free(malloc(16 + i % 900)); }}\n\
         #define LOSE(blocks, size) for (int i = 0; i < blocks; i++) {{ void *volatile lost = malloc(size); lost = 0; }}\n\
         int main(void) {{ pass(4000); LOSE(2, {EARLY}) pass(4000); LOSE(3, {LATE}) pass(600); return 0; }}\n"
    );
    let source = scratch.write("main.c", text);
    let program = scratch.join("prog");
    compile(&source, &program, &[]);
    let out = scratch.join("whole.hwt");
    let mut shell = without_recorder(Command::new("sh"));
    let line = "\"$0\" record --sum -o fd:3 -- \"$1\" 3>&1 >/dev/null | cat > \"$2\"";
    shell
        .args(["-c", line])
        .arg(heapwire())
        .args([&program, &out]);
    let run = Run::of(&mut shell);
    assert_eq!(run.status, 0, "{run:?}");
    std::fs::read(out).unwrap()
}

fn assert_nothing_is_certain(report: &Value, about: &str) {
    let errors = list(&report["processes"][0]["errors"]);
    let certain = errors.iter().find(|error| error["certain"] == true);
    assert_eq!(certain, None, "{about}");
}

fn assert_all_that_stays(report: &Value, about: &str) {
    let left = left(report);
    for expected in ALL {
        assert!(left.contains(&expected), "{about}: {left:?}");
    }
}

#[test]
fn what_is_cut_off_is_missed() {
    let scratch = Scratch::new("piped-cut");
    let whole = recorded(&scratch);
    let (report, _) = told(&scratch, &whole, "whole").unwrap();
    assert_eq!(left(&report), ALL);
    let length = whole.len();
    let (report, verified) = told(&scratch, &whole[..length - 20], "tail").unwrap();
    assert_all_that_stays(&report, "tail");
    assert!(
        warnings(&report).contains(&"ends-inside-frame"),
        "{report:#}"
    );
    assert!(
        damage(&verified).contains(&"ends-inside-frame"),
        "{verified:#}"
    );
    let (report, _) = told(&scratch, &whole[..length * 3 / 4 + 5], "cut").unwrap();
    assert!(left(&report).contains(&ALL[0]), "{report:#}");
    assert!(warnings(&report).contains(&"cut"), "{report:#}");
    let (report, _) = told(&scratch, &whole[length / 4 + 3..], "head").unwrap();
    assert!(warnings(&report).contains(&"start-missing"), "{report:#}");
    assert_all_that_stays(&report, "head");
    assert_eq!(list(&report["processes"][0]["errors"]).len(), 0);
}

#[test]
fn what_is_changed_costs_its_frames() {
    let scratch = Scratch::new("piped-changed");
    let whole = recorded(&scratch);
    let length = whole.len();
    let mut flipped = whole.clone();
    for flip in 0..16 {
        flipped[length / 8 + flip * (length / 64)] ^= 1 << (flip % 8);
    }
    let mut hole = whole.clone();
    hole[length / 6..length / 6 + 4096.min(length / 6)].fill(0);
    let mut count = whole.clone();
    count[length / 4 + 4..length / 4 + 12].fill(0xFF);
    let text = |at: usize| [&whole[..at], b"some text\r\n", &whole[at..]].concat();
    for (about, bytes) in [
        ("flip", flipped),
        ("hole", hole),
        ("count", count),
        ("text", text(length / 4)),
    ] {
        let (report, verified) = told(&scratch, &bytes, about).unwrap();
        assert_damage_in_phase_one(&report, about);
        assert!(!damage(&verified).is_empty(), "{about}: {verified:#}");
    }
}

#[test]
fn what_a_terminal_changed_is_undone_or_refused() {
    let scratch = Scratch::new("piped-lines");
    let whole = recorded(&scratch);
    let (expected, _) = told(&scratch, &whole, "whole").unwrap();
    let each = |change: fn(u8) -> Vec<u8>| whole.iter().flat_map(|byte| change(*byte)).collect();
    let grown: Vec<u8> = each(|byte| match byte {
        b'\n' => b"\r\n".to_vec(),
        byte => vec![byte],
    });
    let telnet: Vec<u8> = each(|byte| match byte {
        0xFF => vec![0xFF, 0xFF],
        b'\r' => b"\r\0".to_vec(),
        byte => vec![byte],
    });
    for (about, bytes) in [("line feeds", grown), ("telnet", telnet)] {
        let (report, verified) = told(&scratch, &bytes, about).unwrap();
        assert_eq!(report["processes"], expected["processes"], "{about}");
        assert_eq!(damage(&verified), ["translated"], "{about}");
    }
    let mut shrunk: Vec<u8> = Vec::new();
    for byte in &whole {
        if *byte == b'\n' && shrunk.last() == Some(&b'\r') {
            shrunk.pop();
        }
        shrunk.push(*byte);
    }
    assert!(told(&scratch, &shrunk, "shrunk").is_none());
}

#[test]
fn what_came_twice_or_elsewhere_is_noticed() {
    let scratch = Scratch::new("piped-order");
    let whole = recorded(&scratch);
    let at = whole.len() / 4;
    let twice = [&whole[..at + 2560], &whole[at..]].concat();
    let swapped = [
        &whole[..at],
        &whole[at + 320..at + 640],
        &whole[at..at + 320],
        &whole[at + 640..],
    ];
    for (about, bytes) in [("twice", twice), ("swapped", swapped.concat())] {
        let (report, verified) = told(&scratch, &bytes, about).unwrap();
        assert_all_that_stays(&report, about);
        assert_nothing_is_certain(&report, about);
        assert!(!damage(&verified).is_empty(), "{about}: {verified:#}");
        assert!(
            !warnings(&report).contains(&"unseen-releases"),
            "{report:#}"
        );
    }
}
