//! Debug information in another file than the module.

use crate::made::{
    build, calls, every_function, expect_lines, expect_names, expect_nothing, id, is_installed,
    look_up, run, scratch, skip,
};
use crate::templates;
use heapwire::address::FileAddress;
use heapwire::symbols::{Options, Resolved, Rule, Source};
use std::fs;
use std::path::{Path, PathBuf};

const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// A program whose debug information was moved to `prog.debug`.
struct Separated {
    built: PathBuf,
    program: PathBuf,
    calls: Vec<FileAddress>,
}

impl Separated {
    fn new(test: &str, build_id: &str, strip: &str) -> Self {
        let built = scratch(test);
        let program = build(&built, &format!("-g -Wl,--build-id={build_id}"));
        let calls = calls(&program);
        run(&built, "objcopy --only-keep-debug prog prog.debug");
        run(&built, &format!("strip {strip} prog"));
        Self {
            built,
            program,
            calls,
        }
    }

    fn with_link(test: &str, build_id: &str) -> Self {
        let separated = Self::new(test, build_id, "-g");
        run(
            &separated.built,
            "objcopy --add-gnu-debuglink=prog.debug prog",
        );
        separated
    }

    fn move_debug(&self, to: &str) -> PathBuf {
        let to = self.built.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::rename(self.built.join("prog.debug"), &to).unwrap();
        to
    }

    fn look_up(&self, build_id: Option<&str>, debug_dir: Option<&str>) -> Resolved {
        let options = Options {
            debug_dirs: debug_dir
                .map(|directory| self.built.join(directory))
                .into_iter()
                .collect(),
            ..Options::default()
        };
        look_up(&self.program, build_id.map(id), &self.calls, &options)
    }
}

fn rules(found: &Resolved) -> Vec<Rule> {
    found.files.iter().map(|file| file.rule).collect()
}

#[test]
fn debug_link_beside_the_file() {
    let separated = Separated::with_link("debug_link_beside_the_file", "none");
    let found = separated.look_up(None, None);
    expect_lines(&found, &separated.built);
    assert_eq!(rules(&found), [Rule::Path, Rule::DebugLink]);
    assert!(found.notes.is_empty());
}

#[test]
fn debug_link_in_a_hidden_directory() {
    let separated = Separated::with_link("debug_link_in_a_hidden_directory", "none");
    separated.move_debug(".debug/prog.debug");
    expect_lines(&separated.look_up(None, None), &separated.built);
}

#[test]
fn debug_link_in_a_debug_directory() {
    let separated = Separated::with_link("debug_link_in_a_debug_directory", "none");
    let full = format!("dbg{}/prog.debug", separated.built.to_str().unwrap());
    separated.move_debug(&full);
    expect_lines(&separated.look_up(None, Some("dbg")), &separated.built);
}

#[test]
fn a_wrong_check_sum_is_refused() {
    let separated = Separated::with_link("a_wrong_check_sum_is_refused", "none");
    let mut bytes = fs::read(separated.built.join("prog.debug")).unwrap();
    bytes.push(b'x');
    fs::write(separated.built.join("prog.debug"), bytes).unwrap();
    let found = separated.look_up(None, Some("."));
    expect_names(&found);
    assert_eq!(found.found, Source::SymbolsOnly);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains("check sum"), "{:?}", found.notes);
}

#[test]
fn an_absent_debug_file_is_noted_once() {
    let separated = Separated::with_link("an_absent_debug_file_is_noted_once", "none");
    fs::remove_file(separated.built.join("prog.debug")).unwrap();
    run(&separated.built, "strip -s prog");
    let found = separated.look_up(None, None);
    expect_nothing(&found);
    assert_eq!(found.found, Source::NoSymbols);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains("prog.debug"), "{:?}", found.notes);
}

#[test]
fn a_build_id_wins_over_a_check_sum() {
    let separated = Separated::with_link("a_build_id_wins_over_a_check_sum", &format!("0x{ID}"));
    let debug = separated.built.join("prog.debug");
    let mut bytes = fs::read(&debug).unwrap();
    bytes.push(b'x');
    fs::write(&debug, bytes).unwrap();
    expect_lines(&separated.look_up(Some(ID), None), &separated.built);
}

#[test]
fn trees_of_build_ids() {
    let (first, rest) = ID.split_at(2);
    for (directory, tree) in [
        ("dbg", "dbg/.build-id"),
        ("tree/.build-id", "tree/.build-id"),
    ] {
        let separated = Separated::new("trees_of_build_ids", &format!("0x{ID}"), "-s");
        separated.move_debug(&format!("{tree}/{first}/{rest}.debug"));
        let found = separated.look_up(Some(ID), Some(directory));
        expect_lines(&found, &separated.built);
        assert_eq!(rules(&found), [Rule::Path, Rule::BuildId]);
        expect_nothing(&separated.look_up(Some(ID), None));
    }
}

#[test]
fn a_module_that_is_gone_is_found_by_its_build_id() {
    let separated = Separated::new("a_module_that_is_gone", &format!("0x{ID}"), "-s");
    fs::remove_file(&separated.program).unwrap();
    separated.move_debug("dbg/anywhere/under/any.name");
    let found = separated.look_up(Some(ID), Some("dbg"));
    expect_lines(&found, &separated.built);
    assert_eq!(found.found, Source::DebugInfo);
    let found = separated.look_up(Some(ID), None);
    assert_eq!(found.found, Source::Missing);
    let other = ID.replace("01", "99");
    expect_nothing(&separated.look_up(Some(&other), Some("dbg")));
}

#[test]
fn a_rebuilt_module_is_never_used() {
    let separated = Separated::new("a_rebuilt_module_is_never_used", &format!("0x{ID}"), "-g");
    let other = ID.replace("01", "99");
    let found = separated.look_up(Some(&other), Some("."));
    expect_nothing(&found);
    assert_eq!(found.found, Source::BuildIdMismatch);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains(ID) && found.notes[0].contains(&other));
}

#[test]
fn a_recorded_build_id_that_the_file_lacks_is_a_mismatch() {
    let separated = Separated::new("a_recorded_build_id_that_the_file_lacks", "none", "-g");
    let found = separated.look_up(Some(ID), None);
    expect_nothing(&found);
    assert_eq!(found.found, Source::BuildIdMismatch);
}

#[test]
fn flat_directories() {
    // By name, proved by the build id.
    let separated = Separated::new("flat_directories", &format!("0x{ID}"), "-s");
    separated.move_debug("dbg/prog.debug");
    expect_lines(&separated.look_up(Some(ID), Some("dbg")), &separated.built);
    // Without build ids, the user's word and the same layout of the code.
    let separated = Separated::new("flat_directories", "none", "-s");
    separated.move_debug("dbg/prog");
    expect_lines(&separated.look_up(None, Some("dbg")), &separated.built);
    // Another program of the same name.
    let separated = Separated::new("flat_directories", "none", "-s");
    fs::create_dir_all(separated.built.join("dbg")).unwrap();
    fs::write(
        separated.built.join("other.c"),
        "int main(void) { return 0; }\n",
    )
    .unwrap();
    run(
        &separated.built,
        "gcc -g -Wl,--build-id=none -o dbg/prog other.c",
    );
    fs::remove_file(separated.built.join("prog.debug")).unwrap();
    expect_nothing(&separated.look_up(None, Some("dbg")));
}

#[test]
fn a_file_beside_needs_proof() {
    let separated = Separated::new("a_file_beside_needs_proof", "none", "-s");
    expect_nothing(&separated.look_up(None, None));
    let separated = Separated::new("a_file_beside_needs_proof", &format!("0x{ID}"), "-s");
    let found = separated.look_up(Some(ID), None);
    expect_lines(&found, &separated.built);
    assert_eq!(rules(&found), [Rule::Path, Rule::Beside]);
}

/// A file of another build is not used even where the debug link has its check sum.
#[test]
fn a_build_id_that_is_another_wins_over_a_check_sum() {
    let other = scratch("another_build_with_its_check_sum_other");
    build(&other, "-g -Wl,--build-id=0xabcdef");
    let test = "another_build_with_its_check_sum";
    let separated = Separated::new(test, &format!("0x{ID}"), "-g");
    fs::copy(other.join("prog"), separated.built.join("prog.debug")).unwrap();
    run(
        &separated.built,
        "objcopy --add-gnu-debuglink=prog.debug prog",
    );
    for recorded in [Some(ID), None] {
        let found = separated.look_up(recorded, None);
        expect_names(&found);
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
        let note = &found.notes[0];
        assert!(note.contains("build id abcdef is another"), "{note}");
    }
}

/// Wherever a file lies, the build id decides.
#[test]
fn another_build_is_refused_in_every_place() {
    let (first, rest) = ID.split_at(2);
    let full = |built: &Path| format!("dbg{}/prog", built.to_str().unwrap());
    for place in [
        format!("dbg/.build-id/{first}/{rest}.debug"),
        format!("dbg/{first}/{rest}.debug"),
        format!("dbg/usr/lib/debug/.build-id/{first}/{rest}.debug"),
        "prog.debug".to_owned(),
        ".debug/prog.debug".to_owned(),
        "dbg/prog.debug".to_owned(),
        "dbg/prog".to_owned(),
        "dbg/anywhere/else".to_owned(),
        "FULL".to_owned(),
    ] {
        let separated = Separated::with_link("another_build_is_refused", &format!("0x{ID}"));
        let place = place.replace("FULL", &full(&separated.built));
        let own = separated.move_debug(&place);
        fs::create_dir_all(separated.built.join("dbg")).unwrap();
        let found = separated.look_up(Some(ID), Some("dbg"));
        expect_lines(&found, &separated.built);
        assert_eq!(found.tried, [], "{place}: nothing is missing");
        // The same program, but for its id.
        let other = scratch("another_build_is_refused_other");
        build(&other, "-g -Wl,--build-id=0xabcdef");
        fs::copy(other.join("prog"), &own).unwrap();
        let found = separated.look_up(Some(ID), Some("dbg"));
        expect_names(&found);
        assert!(
            found.files.iter().all(|file| file.path != own),
            "{:?}",
            found.files
        );
    }
}

/// What is missing was looked for in every place that the rules name, and the result says where.
#[test]
fn places_that_were_tried_are_listed() {
    let separated = Separated::with_link("places_that_were_tried", &format!("0x{ID}"));
    let built = &separated.built;
    separated.move_debug("aside");
    fs::create_dir_all(built.join("dbg")).unwrap();
    fs::write(built.join("dbg/prog"), "#!/bin/sh\n").unwrap();
    fs::copy("/proc/self/exe", built.join("dbg/prog.debug")).unwrap();
    let found = separated.look_up(Some(ID), Some("dbg"));
    expect_names(&found);
    let tried: Vec<(String, &str)> = found
        .tried
        .iter()
        .filter_map(|place| Some((place.path.strip_prefix(built).ok()?, place.why.as_str())))
        .map(|(path, why)| (path.to_str().unwrap().to_owned(), why))
        .collect();
    let (first, rest) = ID.split_at(2);
    let reason = |path: &str| {
        let place = tried.iter().position(|(tried, _)| tried == path);
        let place = place.unwrap_or_else(|| panic!("{path} in {tried:?}"));
        (place, tried[place].1)
    };
    let order = [
        reason(&format!("dbg/.build-id/{first}/{rest}.debug")),
        reason("dbg/prog.debug"),
        reason("dbg/prog"),
        reason("prog.debug"),
        reason(".debug/prog.debug"),
        reason("dbg"),
    ];
    assert!(order.is_sorted(), "{tried:?}");
    let whys: Vec<&str> = order.iter().map(|(_, why)| *why).collect();
    assert!(whys[1].ends_with("is another"), "{whys:?}");
    let absent = "not there";
    let nowhere = "nothing of this build id below it";
    assert_eq!(
        [&whys[..1], &whys[2..]].concat(),
        [absent, "not an ELF file", absent, absent, nowhere]
    );

    // A module that is gone, and its debug files with it.
    fs::remove_file(&separated.program).unwrap();
    let found = separated.look_up(Some(ID), None);
    assert_eq!(found.found, Source::Missing);
    assert_eq!(found.tried[0].path, separated.program);
    assert_eq!(found.tried[0].why, "not there");
}

/// Partial units, and names in another file, of templates and inlined functions.
#[test]
fn shared_debug_information_of_cpp() {
    if !is_installed("dwz") {
        return skip("dwz", "dwz");
    }
    for flags in ["-O0 -gdwarf-4", "-O2 -gdwarf-4", "-O2 -gdwarf-5"] {
        let built = scratch("shared_debug_information_of_cpp");
        let program = templates::build(&built, 2, 3, flags);
        let addresses = every_function(&program);
        assert!(addresses.len() > 500, "{}", addresses.len());
        let options = Options::default();
        let plain = look_up(&program, None, &addresses, &options);
        let mut ways = vec!["", "-m shared -M shared"];
        if flags.contains("-gdwarf-5") {
            ways.push("--dwarf-5 -m shared -M shared"); // in the way of the standard
        }
        for with in ways {
            let folder = built.join("dwz");
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            for copy in ["one", "two"] {
                fs::copy(&program, folder.join(copy)).unwrap();
            }
            run(&folder, &format!("dwz {with} one two"));
            let less = |name: &str| fs::metadata(folder.join(name)).unwrap().len();
            assert!(less("one") < fs::metadata(&program).unwrap().len());
            let found = look_up(&folder.join("one"), None, &addresses, &options);
            assert_eq!(found.notes, [] as [String; 0]);
            assert!(found.addresses == plain.addresses, "{flags} {with}");
            let is_shared = rules(&found).contains(&Rule::AltLink);
            assert_eq!(is_shared, !with.is_empty(), "{flags} {with}");
        }
    }
}

/// dwz moves what debug files share into one that they name.
#[test]
fn shared_debug_information() {
    if !is_installed("dwz") {
        return skip("dwz", "dwz");
    }
    let built = scratch("shared_debug_information");
    let program = build(&built, "-g -gdwarf-4");
    let calls = calls(&program);
    fs::copy(&program, built.join("twin")).unwrap();
    run(&built, "dwz -m shared -M shared prog twin");
    let options = Options::default();
    let found = look_up(&program, None, &calls, &options);
    expect_lines(&found, &built);
    assert_eq!(rules(&found), [Rule::Path, Rule::AltLink]);
    fs::rename(built.join("shared"), built.join("elsewhere")).unwrap();
    let found = look_up(&program, None, &calls, &options);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains("shared"));
    let options = Options {
        debug_dirs: vec![built.clone()],
        ..options
    };
    fs::create_dir(built.join(".dwz")).unwrap();
    fs::rename(built.join("elsewhere"), built.join(".dwz/shared")).unwrap();
    expect_lines(&look_up(&program, None, &calls, &options), &built);
    // Another file of that name is not it.
    fs::copy(Path::new("/proc/self/exe"), built.join("shared")).unwrap();
    expect_lines(&look_up(&program, None, &calls, &options), &built);
}
