use super::{MAX_NAME, Names, is_mangled};

fn readable(name: &str, demangle: bool) -> String {
    Names::of([name].into_iter(), demangle)
        .readable(name)
        .as_ref()
        .to_owned()
}

#[test]
fn cpp_names_become_readable() {
    for (mangled, expected) in [
        ("_ZN5outer3fooEi", "outer::foo(int)"),
        (
            "_ZN12_GLOBAL__N_16HiddenclEi",
            "(anonymous namespace)::Hidden::operator()(int)",
        ),
        ("_ZN3Abi2goB6taggedEv", "Abi::go[abi:tagged]()"),
        ("_ZL14u8name_größev", "u8name_größe()"),
        (
            "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEC2IS3_EEmcRKS3_",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string<std::allocator<char> >(unsigned long, char, std::allocator<char> const&)",
        ),
        ("_ZN1AcvPT_IiEEv", "A::operator int*<int>()"),
        (
            "_Z5applyIJilEEvPFvDpT_EDpRKS0_",
            "void apply<int, long>(void (*)(int, long), int const&, long const&)",
        ),
        (
            "_Z1fIJLm3ELm4EEEv5IndexIJXspT_EEE",
            "void f<3ul, 4ul>(Index<3ul, 4ul>)",
        ),
        (
            "_ZN1A1BcvSbIT_St11char_traitsIS1_ESaIS1_EEIcEEv",
            "A::B::operator std::basic_string<char, std::char_traits<char>, std::allocator<char> ><char>()",
        ),
        ("_ZThn8_N4Both1vEv", "non-virtual thunk to Both::v()"),
        ("_ZTv0_n24_N1A1fEv", "virtual thunk to A::f()"),
        ("_ZTVN1a1bE", "vtable for a::b"),
        ("_Z1fv.part.0.cold", "f() [clone .part.0] [clone .cold]"),
        ("_Z1fPA3_A4_i", "f(int (*) [3][4])"),
        ("_Z1fM1AKFvvE", "f(void (A::*)() const)"),
        ("_ZNO1A1fEv", "A::f() &&"),
        (
            "_ZNK3BoxIcLin1EEcvbEv",
            "Box<char, -1>::operator bool() const",
        ),
    ] {
        assert_eq!(readable(mangled, true), expected);
    }
}

#[test]
fn rust_names_lose_their_hash() {
    for (mangled, expected) in [
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        (
            "_ZN4core3fmt5write17h0123456789abcdefE.llvm.1234",
            "core::fmt::write",
        ),
        ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
    ] {
        assert_eq!(readable(mangled, true), expected);
    }
}

/// `_Rb_tree` is a class of the C++ library, whose constructors debug information names so.
#[test]
fn few_names_are_mangled() {
    for name in ["_Z1fv", "_RNvCs1234_7mycrate3foo", "_R0NvC1a1b"] {
        assert!(is_mangled(name), "{name}");
    }
    for name in ["_Rb_tree", "_R", "main", "_start", "__Z1fv"] {
        assert!(!is_mangled(name), "{name}");
    }
}

#[test]
fn what_cannot_be_demangled_stays() {
    for name in [
        "main",
        "",
        "_Z",
        "_ZN",
        "_R",
        "_ZN3fo",
        "größe",
        "_ZN99999999999999999999aE",
        "_Rb_tree",
    ] {
        assert_eq!(readable(name, true), name);
    }
    assert_eq!(readable("_Z3foov", false), "_Z3foov");
}

#[test]
fn long_names_are_cut_between_characters() {
    let cut = readable(&"ä".repeat(MAX_NAME), true);
    assert_eq!(cut, format!("{}…", "ä".repeat(MAX_NAME / 2)));
    // Each level doubles what comes before it.
    let doubling = format!("_Z1fI1AE1BIS_S_E{}v", "1CIS1_S1_E".repeat(3));
    assert!(readable(&doubling, true).len() <= MAX_NAME + 3);
}

#[test]
fn hostile_names_end_soon() {
    let mut doubling = String::from("_Z1f1AIiiE");
    for level in 0..60 {
        let back = if level == 0 {
            "_".to_owned()
        } else {
            format!("{}_", (level * 2) - 1)
        };
        doubling.push_str(&format!("1AIS{back}S{back}E"));
    }
    for name in [
        format!("_Z1f{}i", "P".repeat(1_000_000)),
        format!("_Z1fI{}", "I".repeat(100_000)),
        format!("_ZN{}", "1a".repeat(100_000)),
        format!("_RINv{}", "C1aINv".repeat(50_000)),
        format!("_Z1fDp{}", "Dp".repeat(50_000)),
        "_Z".repeat(50_000),
        format!("_Z1fIX{}", "nw1a".repeat(40)), // years
        doubling,
        format!("_ZN{}E", "1a".repeat(200_000)),
        format!("_Z1f{}i", "PK".repeat(100_000)),
        format!("_Z1fIiiiiEv{}T_", "Dp".repeat(100)),
        format!("_Z1fIJ{}EEv{}", "i".repeat(1_000), "DpPT_".repeat(1_000)),
        format!("_Z1fIJ{}EEvDp{}", "i".repeat(500), "1AIDpT_E".repeat(500)),
        format!("_Z{}", "Z1fvE".repeat(20_000)),
        format!("_Z1fX{}", "ad".repeat(50_000)),
    ] {
        assert!(readable(&name, true).len() <= MAX_NAME + 3);
    }
}
