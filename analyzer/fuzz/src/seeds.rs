//! What is damaged: small traces with everything in them, logs and names.

use crate::mutate::Random;
use heapwire_tests::packed::twin;
use heapwire_tests::trace::{BASE, Record, Writer};

/// Small traces that are whole, with plain frames and with packed ones.
#[must_use]
pub fn traces() -> Vec<Vec<u8>> {
    let plain = [faults(), fork(), control(), lanes()];
    let packed = plain.each_ref().map(|trace| twin(trace));
    plain.into_iter().chain(packed).collect()
}

/// A sound trace of calls that no program makes: at a few addresses, of a few threads, in any order, and with gaps.
/// It names no module, so no file is looked for.
#[must_use]
pub fn calls(random: &mut Random) -> Vec<u8> {
    const SIZES: [u64; 6] = [0, 1, 48, 4096, 1 << 40, u64::MAX];
    let mut writer = Writer::bare(0xC0FF_EE11);
    writer.process(4711, &["exe=/bin/p", "began=exec"]).flush();
    for _ in 0..random.below(120) {
        let address = 0x1000 + 0x20 * random.below(10) as u64 + random.below(8) as u64 / 7;
        let size = SIZES[random.below(SIZES.len())];
        let family = u8::try_from(random.below(7)).expect("few") % 6;
        match random.below(16) {
            0..=4 => _ = writer.heap(1, family, address, size),
            5..=8 => _ = writer.heap(2, family, address, u64::MAX),
            9..=12 => {
                let op = 3 + u8::try_from(random.below(5)).expect("few");
                writer.heap(op, family, address, SIZES[random.below(3)]);
            }
            13 => {
                writer.flush();
                writer.frame.tid = 4711 + u32::try_from(random.below(12)).expect("few");
            }
            14 => writer.next += random.below(3) as u64,
            _ => _ = writer.site(random.below(4) as u64),
        }
    }
    if random.below(3) > 0 {
        writer.end();
    }
    writer.bytes()
}

/// Small logs of glibc's mtrace, of its versions and of what happens to logs.
#[must_use]
pub fn logs() -> Vec<Vec<u8>> {
    let current = "= Start\n@ ./gw:[0x1233] + 0x55d0c0de02a0 0x10\n@ ./gw:(poll+1d)[0x1250] + 0x55d0c0de02c0 0x20\n@ /lib/libc.so.6:(__strdup+1a)[0x9e9aa] + 0x55d0c0de02f0 0x5\n@ ./gw:[0x1260] < 0x55d0c0de02c0\n@ ./gw:[0x1260] > 0x55d0c0de0310 0x40\n@ ./gw:[0x1270] ! 0x55d0c0de0310 0xffffffffffffe000\n@ ./gw:[0x1280] + (nil) 0xffffffffffffe000\n@ ./gw:[0x1290] - 0x55d0c0de02a0\n@ ./gw:[0x1290] - 0x55d0c0de02a0\n= End\n";
    let old = "= Start\n@ [0x8048209]:main + 0x8064c48 0x14\n@ foo.c:42 + 0x8064c70 64\n@ ./gw:(main+0x1f)[0x5555555551a6] < 0x8064c70\n> 0x8064c90 1f\n@ ./gw:(main+0x2f)[0x5555555551b6] ! 0x8064c90 0\n";
    let odd = "[12] @ ./my app:(odd [name]+0x4)[0x401200] + 0x1000 0x7\r\nhello\r\n@0x4005f4 - 0x1000\r\n@ ./gw:[0x1= Start\r\n+ 0x1000 0x1\r\n+ 0x1000 0x2\r\n- 0x1000\r\n- 0x1000\r\n\0\0\0@ [0x2] - 0x7777\r\n@ ./g";
    let mcheck = "= Start\n@ ./mc:[0x119a] + 0x5617940fc510 0xa\n@ ./mc:[0x11af] < 0x5617940fc4e0\n@ ./mc:[0x11af] > 0x5617940fc510 0x1388\n@ ./mc:[0x11bf] - 0x5617940fc4e0\n";
    [current, old, odd, mcheck]
        .map(|log| log.as_bytes().to_vec())
        .to_vec()
}

/// What lines of logs are made of.
pub const WORDS: &[&[u8]] = &[
    b"@ ",
    b"@",
    b"[0x",
    b"]",
    b"] + 0x",
    b" - ",
    b" < ",
    b" > ",
    b" ! ",
    b"+ ",
    b"(nil)",
    b"\0",
    b"\n",
    b"\r\n",
    b"= Start",
    b"= End",
    b":(",
    b"+0x",
    b")",
    b" 0xffffffffffffffff",
    b"0x1000",
    b" 0",
    b"\x1F\x8B\x08",
    b"\x28\xB5\x2F\xFD",
    b"./gw:[0x10]",
    b"\xEF\xBB\xBF",
    b"\xFF",
];

fn faults() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.flush();
    for block in 1..8 {
        writer.malloc(block * 0x1000, block * 8);
    }
    writer
        .flush()
        .realloc(0x1000, 0x1_0000, 96)
        .realloc(0x2000, 0x2000, 1);
    writer
        .heap(3, 0, 0x3000, 500)
        .heap(5, 0, 0x3000, 500)
        .heap(3, 0, 0x3000, 0)
        .heap(6, 0, 0x3000, 0);
    writer
        .heap(7, 0, 0, u64::MAX)
        .free(0x4000)
        .free(0x4000)
        .free(0x5008)
        .flush();
    writer.heap(1, 2, 0x9000, 8).free(0x9000).end();
    writer.bytes()
}

fn fork() -> Vec<u8> {
    let mut parent = Writer::new();
    parent.malloc(0x1000, 8).malloc(0x2000, 16).flush();
    let mut child = Writer::bare(0x0BAD_CAFE);
    child.next = parent.next;
    let fork = format!("fork={}", parent.next);
    child.process(
        4712,
        &["parent=c0ffee11", &fork, "began=fork", "exe=/bin/p"],
    );
    child
        .free(0x1000)
        .malloc(0x3000, 24)
        .declare(0x76, [0, 0, 0], b"/bin/other");
    parent
        .record(Record {
            op: 0x75,
            ptr: 4712,
            ..Record::default()
        })
        .free(0x2000);
    let mut observer = Writer::bare(0);
    observer.record(Record {
        op: 0xF8,
        ptr: 4711,
        size: 9,
        ..Record::default()
    });
    [
        parent.bytes(),
        b"text between".to_vec(),
        child.bytes(),
        observer.bytes(),
    ]
    .concat()
}

/// Every control record, stacks and the records that add to others.
fn control() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.frame.version = (1, 1); // some ops are not of this version
    writer.declare(0x74, [4713, 2, 0], b"worker");
    writer.record(Record {
        op: 0x78,
        ptr: 1,
        size: 0,
        pc: 0x40_1200,
        base: BASE,
        ..Record::default()
    });
    writer.record(Record {
        op: 0x78,
        ptr: 2,
        size: 1,
        pc: 0x40_1300,
        base: BASE,
        ..Record::default()
    });
    writer.record(Record {
        op: 1,
        flags: 0x90,
        ptr: 0x1000,
        size: 8,
        pc: 0x40_1136,
        base: 2,
        ..Record::default()
    });
    writer.record(Record {
        op: 0x79,
        ptr: 1,
        size: 64,
        ..Record::default()
    });
    for op in [0x7A, 0x7B, 0x7C, 0xF4, 0xF5, 0xF6, 0xFF, 0x11, 0x8A] {
        writer.record(Record {
            op,
            ptr: 0x1000,
            size: 3,
            ..Record::default()
        });
    }
    for op in [0x7D, 0xF0, 0xF1, 0xF2, 0xF3, 0xF7] {
        writer.declare(
            op,
            [1, 2, 3],
            b"a label that takes more than one record of text",
        );
    }
    writer.record(Record {
        op: 0x73,
        ptr: BASE,
        size: 0x10_0000,
        ..Record::default()
    });
    writer
        .module(BASE, 0x2000, "/lib/other.so")
        .malloc(0x2000, 8)
        .end();
    writer.bytes()
}

fn lanes() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.malloc(0x1000, 8).flush();
    let next = writer.next;
    let at = writer.bytes().len() + 80;
    let mut payload = vec![0; at.next_multiple_of(4096) - at];
    let mut table = vec![0; 4096];
    table[0..8].copy_from_slice(b"HWLANES\x01");
    table[8..12].copy_from_slice(&0xC0FF_EE11_u32.to_le_bytes());
    for (at, value) in [
        (12, 4711),
        (16, 1),
        (20, 64),
        (24, 64),
        (64, 4711),
        (68, 1),
        (72, 128),
        (76, 90),
    ] {
        table[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    table[80..88].copy_from_slice(&next.to_le_bytes());
    for (slot, number) in (0..20).zip(next..) {
        let op = 1 + u8::try_from(slot % 2).expect("0 or 1");
        let record = Record {
            op,
            number,
            ptr: 0x2000,
            size: 8,
            ..Record::default()
        };
        table[128 + slot * 40..168 + slot * 40].copy_from_slice(&record.bytes());
    }
    payload.extend(table);
    (writer.frame.kind, writer.frame.sum_kind) = (3, 0);
    writer.frame_of(&payload).bytes()
}

/// Names as compilers make them.
pub const NAMES: &[&str] = &[
    "_ZNSt6vectorIPN12_GLOBAL__N_14NodeILi0EEESaIS3_EE17_M_realloc_insertIJRKS3_EEEvN9__gnu_cxx17__normal_iteratorIPS3_S5_EEDpOT_",
    "_ZNSt6chrono13duration_castINS_8durationIlSt5ratioILl1ELl1EEEElS3_EENSt9enable_ifIXsrNS_13__is_durationIT_EE5valueES7_E4typeERKNS1_IT0_T1_EE",
    "_ZZNSt9once_flag18_Prepare_executionC4IZSt9call_onceIMSt6threadFvvEJPS3_EEvRS_OT_DpOT0_EUlvE_EERS8_ENKUlvE_cvPFvvEEv",
    "_ZN1A1BcvSbIT_St11char_traitsIS1_ESaIS1_EEIcEEv",
    "_ZNKO1AIJXspT_EEE1fEPFvA3_KDnEM1BFivE",
    "_ZTv0_n24_NSt9basic_iosIcE4fillEv.part.0.cold",
    "_RINvNtC3std3mem8align_ofjdE",
    "_ZN4core3fmt5write17h0123456789abcdefE",
];

/// Pieces of names.
pub const PIECES: &[&[u8]] = &[
    b"_Z",
    b"_R",
    b"N",
    b"E",
    b"I",
    b"J",
    b"X",
    b"L",
    b"S_",
    b"S1_",
    b"T_",
    b"TL0__",
    b"Dp",
    b"DpT_",
    b"St",
    b"1a",
    b"P",
    b"R",
    b"K",
    b"F",
    b"v",
    b"Z",
    b"UlvE_",
    b"Ut_",
    b"C1",
    b"D0",
    b"cv",
    b"sr",
    b"sp",
    b"cl",
    b"B1x",
    b"A3_",
    b"99999999999999999999",
    b"\xC3\xA4",
];
