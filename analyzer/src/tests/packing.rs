//! Packing and unpacking of any records, and unpacking of any bytes.

use heapwire_format::{PACKED_RECORD, PACKED_START, Packer, Record, Unpacker};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

type Words = [u64; Record::WORDS];

/// Records as programs make them, and some that none makes.
fn records() -> impl Strategy<Value = Vec<Words>> {
    let few = |least: u64, count: u64| (0..count).prop_map(move |it| least + it * 24);
    let op = prop_oneof![8 => 1u8..8, 1 => Just(0x70), 1 => any::<u8>()];
    let flags = prop_oneof![4 => Just(0), 2 => Just(0x20), 1 => any::<u8>()];
    let step = prop_oneof![8 => Just(1u32), 2 => 0u32..400, 1 => any::<u32>()];
    let passed = prop_oneof![8 => Just(0u16), 2 => 0u16..200, 1 => any::<u16>()];
    let ptr = prop_oneof![8 => few(0x7F12_3400_0010, 100), 1 => any::<u64>()];
    let size = prop_oneof![4 => few(8, 5), 1 => Just(u64::MAX), 1 => any::<u64>()];
    let pc = prop_oneof![8 => few(0x40_1136, 200), 1 => any::<u64>()];
    let base = prop_oneof![8 => few(0x40_0000, 2), 1 => any::<u64>()];
    vec((op, flags, step, passed, (ptr, size, pc, base)), 0..300).prop_map(|all| {
        let (mut number, mut time) = (0u32, 0u16);
        let word = |(op, flags, step, passed, (ptr, size, pc, base))| {
            (number, time) = (
                u32::wrapping_add(number, step),
                u16::wrapping_add(time, passed),
            );
            let head = u64::from(u16::from_le_bytes([op, flags]));
            let head = head | u64::from(time) << 16 | u64::from(number) << 32;
            [head, ptr, size, pc, base]
        };
        all.into_iter().map(word).collect()
    })
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(first: u64, records in records(), room in 0usize..9000) {
        let mut packer = Packer::new();
        let (mut rest, mut least) = (&records[..], PACKED_START + PACKED_RECORD);
        while !rest.is_empty() {
            let mut out = vec![0xA5; room.max(least)];
            let packed = packer.pack(first, rest.iter().copied(), &mut out);
            let count = packed.records as usize;
            assert!(count > 0 && packed.bytes <= out.len());
            let mut unpacker = Unpacker::new(first, &out[..packed.bytes]);
            assert!(unpacker.most() >= packed.records);
            let back = unpacker.by_ref().map(|record| record.to_words());
            assert!(back.eq(rest[..count].iter().copied()));
            assert!(unpacker.is_whole());
            rest = &rest[count..];
            least = PACKED_START + PACKED_RECORD; // a packer forgets what it packed before
        }
    }

    #[test]
    fn any_bytes_are_unpacked_to_no_more_than_they_have_room_for(first: u64, bytes in vec(any::<u8>(), 0..2000)) {
        let unpacker = Unpacker::new(first, &bytes);
        let most = unpacker.most() as usize;
        assert!(most <= bytes.len().saturating_sub(PACKED_START).max(1));
        assert!(unpacker.count() <= most);
    }

    #[test]
    fn a_changed_byte_is_noticed(records in records(), at: usize, change in 1u8..) {
        let mut out = vec![0; PACKED_START + PACKED_RECORD * (records.len() + 1)];
        let packed = Packer::new().pack(1, records.iter().copied(), &mut out);
        let payload = &mut out[..packed.bytes];
        payload[at % packed.bytes] ^= change;
        let mut unpacker = Unpacker::new(1, payload);
        let back: Vec<Words> = unpacker.by_ref().map(|record| record.to_words()).collect();
        assert!(!unpacker.is_whole() || back == records);
    }
}

/// The op of a new site decides which size its first record is expected to have.
#[test]
fn a_changed_op_of_a_site_is_noticed_whatever_size_goes_with_it() {
    const OP_AT: usize = PACKED_START + 3; // head, clock, place
    for op in 1..8u8 {
        for size in [0, 1, 48, u64::MAX] {
            let head = u64::from(u16::from_le_bytes([op, 0x20])) | 7 << 32;
            let record = [head, 0x7F12_3400_0010, size, 0x40_1136, 0x40_0000];
            let mut out = [0; PACKED_START + PACKED_RECORD];
            let packed = Packer::new().pack(7, [record].into_iter(), &mut out);
            assert_eq!(out[OP_AT], op);
            for other in (1..8).filter(|other| *other != op) {
                out[OP_AT] = other;
                let mut unpacker = Unpacker::new(7, &out[..packed.bytes]);
                assert_eq!(unpacker.by_ref().count(), 1);
                assert!(!unpacker.is_whole(), "{op} is {other}, {size:#x}");
            }
        }
    }
}
