//! The rules of counting and naming, one made-up trace a rule.

use heapwire_tests::run::{live_blocks, report};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, PC, Record, Writer};
use serde_json::{Value, json};

/// The report's first process, and its trace summary.
fn process(writer: &mut Writer) -> (Value, Value) {
    let scratch = Scratch::new("account");
    let path = scratch.write("t.hwt", writer.bytes());
    let mut report = report(&path);
    (report["processes"][0].take(), report["trace"].take())
}

/// What the blocks of `writer` are, as address and size.
fn blocks(writer: &mut Writer) -> Vec<(String, u64)> {
    let scratch = Scratch::new("blocks");
    let path = scratch.write("t.hwt", writer.bytes());
    let shown = live_blocks(&path);
    let blocks = shown["processes"][0]["blocks"].as_array().unwrap();
    let block = |block: &Value| {
        (
            block["address"].as_str().unwrap().to_owned(),
            block["size"].as_u64().unwrap(),
        )
    };
    blocks.iter().map(block).collect()
}

fn kinds(process: &Value) -> Vec<&str> {
    let errors = process["errors"].as_array().unwrap();
    errors
        .iter()
        .map(|error| error["kind"].as_str().unwrap())
        .collect()
}

#[track_caller]
fn totals(process: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(
            &process["totals"][name], value,
            "{name} in {:#}",
            process["totals"]
        );
    }
}

#[test]
fn each_call_counts_once() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 100)
        .heap(0x01, 1, 0x2000, 50)
        .heap(0x01, 2, 0x3000, 7); // malloc, aligned, new
    writer
        .realloc(0x1000, 0x1000, 120)
        .realloc(0x1000, 0x4000, 10); // in place, moved
    writer.heap(0x03, 0, 0x4000, 999).heap(0x05, 0, 0x4000, 999); // failed
    writer.heap(0x03, 0, 0x4000, 0).heap(0x06, 0, 0x4000, 0); // to zero
    writer.heap(0x07, 0, 0, 5000); // failed allocation
    writer.free(0x2000).end();
    let (process, trace) = process(&mut writer);
    totals(
        &process,
        &json!({
            "allocations": 3, "releases": 2, "reallocations": 2, "allocated_bytes": 100 + 50 + 7 + 120 + 10,
            "failed": 2, "failed_reallocations": 1, "live_blocks": 1, "live_bytes": 7,
            "peak_bytes": 120 + 50 + 7, "peak_blocks": 3, "earlier_releases": 0,
        }),
    );
    assert_eq!(kinds(&process), [""; 0]);
    assert_eq!(trace["complete"], true);
    assert_eq!(process["end"], "normal");
}

#[test]
fn a_moved_block_has_its_new_size_and_order() {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 1).malloc(0x2000, 2).malloc(0x3000, 0);
    writer
        .realloc(0x1000, 0x5000, 11)
        .heap(0x03, 0, 0x2000, 99)
        .heap(0x05, 0, 0x2000, 99)
        .end();
    let expected = [("0x2000", 2), ("0x3000", 0), ("0x5000", 11)];
    assert_eq!(
        blocks(&mut writer),
        expected.map(|(address, size)| (address.to_owned(), size))
    );
}

#[test]
fn a_reused_address_is_no_double_free() {
    let mut writer = Writer::new();
    for _ in 0..3 {
        writer.malloc(0x1000, 8).free(0x1000);
    }
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), [""; 0]);
    totals(
        &process,
        &json!({"allocations": 3, "releases": 3, "temporary": 3}),
    );
}

#[test]
fn order_is_that_of_numbers_whatever_the_place() {
    let mut writer = Writer::new();
    let first = writer.next;
    let at = |op, number, ptr| Record {
        op,
        number,
        ptr,
        size: 8,
        pc: PC,
        base: BASE,
        ..Record::default()
    };
    writer.flush();
    // Another thread's frame with the second allocation comes before the release that made room for it.
    writer.raw(at(1, first + 2, 0x1000)).flush();
    writer
        .raw(at(1, first, 0x1000))
        .raw(at(2, first + 1, 0x1000));
    writer.next = first + 3;
    let (process, trace) = process(writer.end());
    assert_eq!(kinds(&process), [""; 0]);
    totals(
        &process,
        &json!({"live_blocks": 1, "allocations": 2, "releases": 1}),
    );
    assert_eq!(trace["lost_records"], 0);
}

#[test]
fn a_double_free_tells_all_three_moments() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 48)
        .free(0x1000)
        .malloc(0x2000, 8)
        .free(0x1000);
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), ["double-free"]);
    let error = &process["errors"][0];
    assert_eq!(
        (&error["address"], &error["size"], &error["certain"]),
        (&"0x1000".into(), &48.into(), &true.into())
    );
    for moment in [error, &error["first_release"], &error["allocation"]] {
        assert_eq!(moment["thread"], 4711, "{error:#}");
        let frame = &moment["stack"][0];
        assert_eq!(frame["address"], "0x401136", "{error:#}");
        assert_eq!(
            (&frame["module"], &frame["offset"]),
            (&"/bin/p".into(), &"0x401136".into())
        );
    }
    totals(&process, &json!({"releases": 2, "live_blocks": 1}));
}

#[test]
fn the_three_moments_are_those_of_the_last_block_at_an_address() {
    let mut writer = Writer::new();
    let at = |writer: &mut Writer, op: u8, size: u64, site: u64| {
        writer.site(site).record(Record {
            op,
            ptr: 0x1000,
            size,
            pc: PC + site * 16,
            base: BASE,
            time: u16::try_from(site * 100).unwrap(),
            ..Record::default()
        });
    };
    let (allocated, released) = (1, 2);
    at(&mut writer, allocated, 48, 1);
    at(&mut writer, released, u64::MAX, 2);
    at(&mut writer, allocated, 96, 3); // handed out again
    at(&mut writer, released, u64::MAX, 4);
    at(&mut writer, released, u64::MAX, 5);
    at(&mut writer, allocated, 7, 6); // and again
    at(&mut writer, released, u64::MAX, 7);
    at(&mut writer, released, u64::MAX, 8);
    at(&mut writer, released, u64::MAX, 9);
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), ["double-free"; 3]);
    let moments = |error: &Value| {
        let of = |moment: &Value| {
            let address = moment["stack"][0]["address"].as_str().unwrap();
            let pc = u64::from_str_radix(&address[2..], 16).unwrap();
            (pc - PC) / 16
        };
        let times = [&error["allocation"], &error["first_release"], error];
        (error["size"].as_u64().unwrap(), times.map(of))
    };
    let errors = process["errors"].as_array().unwrap();
    let found: Vec<_> = errors.iter().map(moments).collect();
    assert_eq!(found, [(96, [3, 4, 5]), (7, [6, 7, 8]), (7, [6, 7, 9])]);
    let times: Vec<_> = errors.iter().map(|error| &error["time_ns"]).collect();
    assert_eq!(times, [500_000_000, 800_000_000, 900_000_000]);
}

#[test]
fn usage_has_exact_figures() {
    let mut writer = Writer::new();
    let at = |writer: &mut Writer, op: u8, ptr: u64, size: u64, time: u16| {
        writer.record(Record {
            op,
            ptr,
            size,
            pc: PC,
            base: BASE,
            time,
            ..Record::default()
        });
    };
    let (allocated, released, old, new, failed, no_memory) = (1, 2, 3, 4, 5, 7);
    at(&mut writer, allocated, 0x1000, 0, 0);
    at(&mut writer, released, 0x1000, u64::MAX, 0); // lived 0 ns and one record; temporary
    at(&mut writer, allocated, 0x2000, 100, 0);
    at(&mut writer, allocated, 0x3000, 127, 10);
    at(&mut writer, released, 0x2000, u64::MAX, 3); // 3 ms, two records; another one was handed out since
    at(&mut writer, released, 0x3000, u64::MAX, 11); // 1 ms, two records; temporary
    at(&mut writer, allocated, 0x4000, 64, 20);
    at(&mut writer, old, 0x4000, 100, 21);
    at(&mut writer, new, 0x5000, 100, 21); // larger by 36
    at(&mut writer, old, 0x5000, 101, 22);
    at(&mut writer, new, 0x5000, 101, 22); // larger by 1
    at(&mut writer, old, 0x5000, 50, 23);
    at(&mut writer, new, 0x5000, 50, 23); // smaller
    at(&mut writer, old, 0x5000, 1 << 40, 24);
    at(&mut writer, failed, 0x5000, 1 << 40, 24);
    at(&mut writer, no_memory, 0, 1 << 41, 25);
    let (process, _) = process(writer.end());
    let usage = &process["usage"];
    let classes = |of: &str| -> Vec<(u64, u64)> {
        let classes = usage[of].as_array().unwrap().iter();
        classes
            .map(|class| {
                (
                    class["from"].as_u64().unwrap(),
                    class["blocks"].as_u64().unwrap(),
                )
            })
            .collect()
    };
    assert_eq!(classes("sizes"), [(0, 1), (32, 1), (64, 5)]);
    assert_eq!(
        classes("lifetimes_ns"),
        [(0, 1), (524_288, 1), (2_097_152, 1)]
    );
    assert_eq!(classes("lifetimes_records"), [(1, 1), (2, 2)]);
    totals(
        &process,
        &json!({"temporary": 2, "failed": 2, "failed_reallocations": 1, "allocations": 4, "reallocations": 3}),
    );
    assert_eq!(
        (&usage["grown"][0]["blocks"], &usage["grown"][0]["bytes"]),
        (&2.into(), &37.into())
    );
    let refused = (&usage["failed"][0]["calls"], &usage["failed"][0]["bytes"]);
    assert_eq!(refused, (&2.into(), &((1u64 << 41) + (1 << 40)).into()));
}

#[test]
fn realloc_of_a_released_block_is_a_double_free() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 48)
        .free(0x1000)
        .realloc(0x1000, 0x2000, 96);
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), ["double-free"]);
    totals(&process, &json!({"live_blocks": 1, "live_bytes": 96}));
}

#[test]
fn an_invalid_free_says_in_which_block_it_lies() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 200)
        .free(0x1020)
        .free(0x7000)
        .free(0x1001);
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), ["invalid-free"; 3]);
    assert_eq!(
        process["errors"][0]["inside"],
        json!({"offset": 32, "size": 200})
    );
    assert_eq!(process["errors"][1]["inside"], Value::Null);
    assert_eq!(
        process["errors"][2]["inside"],
        json!({"offset": 1, "size": 200})
    );
    totals(
        &process,
        &json!({"releases": 3, "live_blocks": 1, "earlier_releases": 0}),
    );
}

#[test]
fn families_must_fit() {
    let families = 0..6_u8;
    let group = |family: u8| match family {
        0 | 1 => 0,
        2 | 4 => 1,
        _ => 2,
    };
    let mut writer = Writer::new();
    let mut wrong = 0;
    for allocated in families.clone() {
        for released in families.clone() {
            writer
                .heap(1, allocated, 0x1000, 8)
                .heap(2, released, 0x1000, u64::MAX);
            wrong += usize::from(group(allocated) != group(released));
        }
        writer
            .heap(1, allocated, 0x1000, 8)
            .heap(2, 15, 0x1000, u64::MAX);
        writer
            .heap(1, 15, 0x1000, 8)
            .heap(2, allocated, 0x1000, u64::MAX);
    }
    let (process, _) = process(writer.end());
    assert_eq!(kinds(&process), vec!["mismatched-free"; wrong]);
    totals(&process, &json!({"live_blocks": 0, "releases": 48}));
}

#[test]
fn nested_reallocs_close_the_latest_open_one() {
    let mut writer = Writer::new();
    let call = |op, ptr| Record {
        op,
        ptr,
        size: 64,
        pc: PC,
        base: BASE,
        ..Record::default()
    };
    writer.malloc(0x1000, 1).malloc(0x2000, 2);
    // A signal handler above a realloc calls the same line with the same size.
    writer.record(call(3, 0x1000)).record(call(3, 0x2000));
    writer.record(call(5, 0x2000)); // the inner one fails: 0x2000 stays
    writer.record(call(4, 0x3000)).end(); // the outer one moves 0x1000
    let expected = [("0x2000", 2), ("0x3000", 64)];
    assert_eq!(
        blocks(&mut writer),
        expected.map(|(address, size)| (address.to_owned(), size))
    );
}

#[test]
fn without_the_begin_unknown_blocks_are_earlier_ones() {
    let mut writer = Writer::bare(7);
    writer
        .process(9, &["exe=/bin/p", "began=late"])
        .module(BASE, 0x10_0000, "/bin/p");
    writer
        .free(0x1000)
        .free(0x2000)
        .malloc(0x3000, 64)
        .free(0x3008)
        .free(0x4001)
        .end();
    let (process, trace) = process(&mut writer);
    assert_eq!(
        kinds(&process),
        ["invalid-free"; 2],
        "inside a known block, and not aligned"
    );
    totals(
        &process,
        &json!({"releases": 4, "earlier_releases": 2, "live_blocks": 1}),
    );
    assert_eq!(trace["complete"], false, "the begin was not seen");
}

#[test]
fn missing_numbers_make_an_error_uncertain() {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).free(0x1000);
    writer.lose(1); // the allocation that used the address again?
    writer
        .free(0x1000)
        .malloc(0x2000, 8)
        .free(0x2000)
        .free(0x2000)
        .end();
    writer.frame.lost = 1;
    let (process, trace) = process(&mut writer);
    let certain: Vec<_> = process["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| &error["certain"])
        .collect();
    assert_eq!(certain, [false, true], "{process:#}");
    assert_eq!(
        (&trace["lost_records"], &trace["complete"]),
        (&1.into(), &false.into())
    );
}

#[test]
fn void_counts_explain_missing_numbers() {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).lose(1).free(0x1000).end();
    writer.frame.void = 1;
    let (process, _) = process(&mut writer);
    assert_eq!(process["end"], "normal");
    totals(&process, &json!({"live_blocks": 0, "releases": 1}));
}

#[test]
fn a_realloc_in_flight_is_neither_leak_nor_release() {
    let mut writer = Writer::new();
    writer
        .malloc(0x1000, 8)
        .malloc(0x2000, 16)
        .heap(3, 0, 0x1000, 64);
    let (process, trace) = process(&mut writer);
    assert_eq!(process["end"], "cut");
    totals(
        &process,
        &json!({"allocations": 2, "reallocations": 0, "releases": 0}),
    );
    let live = process["totals"]["live_bytes"].as_u64().unwrap();
    assert!(
        [16, 24].contains(&live),
        "the other block is live, of this one nothing is known: {live}"
    );
    assert_eq!(trace["complete"], false);
}

#[test]
fn leaks_are_told_by_site_and_most_bytes_first() {
    let mut writer = Writer::new();
    let site = |pc| Record {
        op: 1,
        size: 10,
        pc,
        base: BASE,
        ..Record::default()
    };
    for address in 1..=3 {
        writer.record(Record {
            ptr: address * 0x1000,
            ..site(PC)
        });
        writer.record(Record {
            ptr: address * 0x10_0000,
            size: 50,
            ..site(PC + 16)
        });
    }
    writer.free(0x1000).end();
    let (process, _) = process(&mut writer);
    let leaks = process["leaks"].as_array().unwrap();
    let row = |leak: &Value| {
        let number = |name: &str| leak[name].as_u64().unwrap();
        (
            number("bytes"),
            number("blocks"),
            number("allocations"),
            leak["stack"][0]["address"].clone(),
        )
    };
    let rows: Vec<_> = leaks.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            (150, 3, 3, "0x401146".into()),
            (20, 2, 3, "0x401136".into())
        ]
    );
}
