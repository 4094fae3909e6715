//! Records that were still in lanes when a trace ended.

use heapwire_tests::run::{live_blocks, report};
use heapwire_tests::scratch::Scratch;
use heapwire_tests::trace::{BASE, CLOCK, PC, Record, Writer};

#[test]
fn committed_slots_of_lanes_belong_to_the_trace() {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).flush();
    let next = writer.next;
    let number = |at: u64| next + at;
    let slot = |op, number, ptr| Record {
        op,
        number,
        ptr,
        size: 8,
        pc: PC,
        base: BASE,
        ..Record::default()
    };
    let at = writer.bytes().len() + 80; // where the payload of the next frame starts in the file
    let mut payload = vec![0xEE; at.next_multiple_of(4096) - at]; // means nothing
    let mut table = vec![0; 4096];
    table[0..8].copy_from_slice(b"HWLANES\x01");
    table[8..12].copy_from_slice(&0xC0FF_EE11_u32.to_le_bytes());
    table[12..16].copy_from_slice(&4711_u32.to_le_bytes());
    table[16..20].copy_from_slice(&2_u32.to_le_bytes()); // two lanes, of which the second was never used
    table[20..24].copy_from_slice(&64_u32.to_le_bytes());
    table[24..28].copy_from_slice(&64_u32.to_le_bytes());
    table[64..68].copy_from_slice(&4711_u32.to_le_bytes());
    table[68..72].copy_from_slice(&1_u32.to_le_bytes());
    table[72..76].copy_from_slice(&1024_u32.to_le_bytes());
    table[76..80].copy_from_slice(&8_u32.to_le_bytes());
    table[80..88].copy_from_slice(&next.to_le_bytes());
    table[88..96].copy_from_slice(&CLOCK.to_le_bytes());
    let slots = [
        slot(1, number(1), 0x3000),
        Record::default(), // a hole
        slot(2, number(0), 0x1000),
        slot(1, next - 1, 0x1000), // in a frame as well
    ];
    for (bytes, slot) in table[1024..].chunks_exact_mut(40).zip(slots) {
        bytes.copy_from_slice(&slot.bytes());
    }
    payload.extend(&table);
    (
        writer.frame.kind,
        writer.frame.sum_kind,
        writer.frame.first,
        writer.frame.clock,
    ) = (3, 0, 0, 0);
    writer.frame_of(&payload);
    let scratch = Scratch::new("lanes");
    let path = scratch.write("t.hwt", writer.bytes());
    let (report, blocks) = (report(&path), live_blocks(&path));
    assert_eq!(report["trace"]["damaged_bytes"], 0, "{report:#}");
    assert_eq!(report["trace"]["lost_records"], 0, "{report:#}");
    assert_eq!(report["processes"][0]["totals"]["allocations"], 2);
    assert_eq!(blocks["processes"][0]["blocks"][0]["address"], "0x3000");
    assert_eq!(
        report["processes"][0]["end"], "cut",
        "lanes outlive a process that did not end by itself"
    );
}
