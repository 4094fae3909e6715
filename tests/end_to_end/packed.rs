//! Inputs packed with gzip or zstd are read as what is in them.

use heapwire_tests::run::{Run, command, json, list, number, on, report};
use heapwire_tests::scratch::Scratch;

const LOG: &[u8] = b"= Start\n@ ./gw:[0x1233] + 0x602010 0x10\n@ ./gw:[0x1244] + 0x602030 0x20\n@ ./gw:[0x1250] - 0x602010\n= End\n";

/// `bytes` as a gzip member that stores them as they are.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let mut packed = vec![0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF];
    packed.push(1); // the last block, stored
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(bytes);
    packed.extend(crc(bytes).to_le_bytes());
    packed.extend(u32::from(length).to_le_bytes());
    packed
}

/// CRC-32, a bit at a time.
fn crc(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ (0xEDB8_8320 * (sum & 1));
        }
    }
    !sum
}

/// `bytes`, fewer than 256, as a zstd frame that stores them as they are.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap();
    let block = u32::from(length) << 3 | 1; // the last block, raw
    let mut packed = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, length];
    packed.extend(&block.to_le_bytes()[..3]);
    packed.extend(bytes);
    packed
}

/// A zstd frame that readers pass over.
const SKIPPED: &[u8] = &[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3];

#[test]
fn packed_inputs_are_read_as_what_is_in_them() {
    let scratch = Scratch::new("packed");
    let plain = scratch.write("plain", LOG);
    let (plain, as_script) = (report(&plain), on(&["mtrace"], &plain));
    assert_eq!(as_script.status, 1, "{}", as_script.stdout);
    let (first, rest) = LOG.split_at(30);
    let packed = [
        gzip(LOG),
        [gzip(first), gzip(rest)].concat(),
        zstd(LOG),
        [zstd(first), SKIPPED.to_vec(), zstd(rest)].concat(),
    ];
    for bytes in packed {
        let file = scratch.write("packed", &bytes);
        assert_eq!(report(&file)["processes"], plain["processes"]);
        let mut from_input = command();
        from_input.args(["report", "--format", "json", "-"]);
        let piped = json(&Run::with_input(&mut from_input, bytes));
        assert_eq!(piped["processes"], plain["processes"]);
        assert_eq!(on(&["mtrace"], &file), as_script);
    }
}

#[test]
fn what_is_cut_or_damaged_is_read_up_to_there() {
    let scratch = Scratch::new("packed_cut");
    let mut wrong_sum = gzip(LOG);
    let last = wrong_sum.len() - 5;
    wrong_sum[last] ^= 1;
    let mut unended = zstd(LOG); // its only block is not the last
    unended[6] &= !1;
    let wrong_block = [&unended, &b"\xFF\xFF\xFF"[..]].concat();
    for bytes in [
        gzip(LOG)[..100].to_vec(),
        wrong_sum,
        [zstd(LOG), b"nonsense".to_vec()].concat(),
        unended,
        wrong_block,
    ] {
        let report = report(&scratch.write("packed", bytes));
        assert_eq!(report["trace"]["complete"], false);
        assert!(number(&report["processes"][0]["totals"]["allocations"]) > 0);
        let warnings = list(&report["warnings"]).iter();
        let broken = warnings.filter(|warning| warning["kind"] == "packed-input-broken");
        assert_eq!(broken.count(), 1);
    }
    for bytes in [
        &gzip(b"")[..],
        &gzip(LOG)[..12],
        &[0x1F, 0x8B, 8],
        b"\x28\xB5\x2F\xFD",
    ] {
        let run = on(&["report"], &scratch.write("nothing", bytes));
        assert_eq!(run.status, 3, "{}", run.stdout);
    }
}
