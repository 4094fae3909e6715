//! Files of a device, looked up in a copy of its file system.

use crate::made::{build, calls, expect_lines, expect_nothing, look_up, run, scratch};
use heapwire::address::FileAddress;
use heapwire::symbols::{Options, Source};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct Device {
    built: PathBuf,
    calls: Vec<FileAddress>,
    options: Options,
}

impl Device {
    /// A device with the program as `/opt/app/prog`, and nothing else.
    fn new(test: &str) -> Self {
        let built = scratch(test);
        let program = build(&built, "-g -Wl,--build-id=none");
        let root = built.join("root");
        fs::create_dir_all(root.join("opt/app")).unwrap();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::rename(&program, root.join("opt/app/prog")).unwrap();
        Self {
            calls: calls(&root.join("opt/app/prog")),
            options: Options {
                sysroot: Some(root),
                ..Options::default()
            },
            built,
        }
    }

    fn root(&self) -> &Path {
        self.options.sysroot.as_deref().unwrap()
    }

    fn look_up(&self, path: &str) -> heapwire::symbols::Resolved {
        look_up(Path::new(path), None, &self.calls, &self.options)
    }
}

#[test]
fn paths_and_links_are_those_of_the_device() {
    let device = Device::new("paths_and_links");
    let root = device.root();
    symlink("/opt/app/prog", root.join("usr/bin/absolute")).unwrap();
    symlink("../../opt/app/prog", root.join("usr/bin/relative")).unwrap();
    symlink(
        "../../../../../../opt/app/prog",
        root.join("usr/bin/too_far_up"),
    )
    .unwrap();
    symlink("/usr/bin", root.join("bin")).unwrap();
    for path in [
        "/opt/app/prog",
        "/usr/bin/absolute",
        "/usr/bin/relative",
        "/usr/bin/too_far_up",
        "/bin/absolute",
        "/../../opt/app/prog",
    ] {
        expect_lines(&device.look_up(path), &device.built);
    }
}

#[test]
fn nothing_outside_is_opened() {
    let device = Device::new("nothing_outside_is_opened");
    let root = device.root();
    let outside = device.built.join("outside");
    fs::copy(root.join("opt/app/prog"), &outside).unwrap();
    symlink(&outside, root.join("usr/bin/link")).unwrap();
    let above = format!("/../{}", outside.file_name().unwrap().to_str().unwrap());
    for path in [
        outside.to_str().unwrap(),
        "/usr/bin/link",
        &above,
        "/usr/../../outside",
    ] {
        let found = device.look_up(path);
        expect_nothing(&found);
        assert_eq!(found.found, Source::Missing, "{path}");
    }
}

#[test]
fn debug_files_are_those_of_the_device() {
    let device = Device::new("debug_files_are_those_of_the_device");
    let app = device.root().join("opt/app");
    run(&app, "objcopy --only-keep-debug prog prog.debug");
    run(&app, "strip -s prog");
    run(&app, "objcopy --add-gnu-debuglink=prog.debug prog");
    let global = device.root().join("usr/lib/debug/opt/app");
    fs::create_dir_all(&global).unwrap();
    fs::rename(app.join("prog.debug"), global.join("prog.debug")).unwrap();
    symlink("/opt/app/prog", device.root().join("usr/bin/prog")).unwrap();
    expect_lines(&device.look_up("/opt/app/prog"), &device.built);
    expect_lines(&device.look_up("/usr/bin/prog"), &device.built);
    // A link beside the program that leads out of the device leads nowhere.
    fs::rename(global.join("prog.debug"), device.built.join("prog.debug")).unwrap();
    symlink(device.built.join("prog.debug"), app.join("prog.debug")).unwrap();
    expect_nothing(&device.look_up("/opt/app/prog"));
}

/// However the user names the copy of the device's files, links in it lead nowhere else.
#[test]
fn a_sysroot_can_be_named_by_a_link() {
    let device = Device::new("a_sysroot_can_be_named_by_a_link");
    let app = device.root().join("opt/app");
    run(&app, "objcopy --only-keep-debug prog prog.debug");
    run(&app, "strip -s prog");
    run(&app, "objcopy --add-gnu-debuglink=prog.debug prog");
    let link = device.built.join("link");
    symlink("root", &link).unwrap();
    let options = Options {
        sysroot: Some(link),
        ..Options::default()
    };
    let look_up = || look_up(Path::new("/opt/app/prog"), None, &device.calls, &options);
    expect_lines(&look_up(), &device.built);
    fs::rename(app.join("prog.debug"), device.built.join("outside.debug")).unwrap();
    symlink(device.built.join("outside.debug"), app.join("prog.debug")).unwrap();
    let found = look_up();
    expect_nothing(&found);
    let root = &options.sysroot.as_ref().unwrap();
    for place in &found.tried {
        assert!(place.path.starts_with(root), "{place:?}");
    }
}

#[test]
fn only_regular_files_are_opened() {
    let device = Device::new("only_regular_files_are_opened");
    let root = device.root();
    run(root, "mkfifo usr/bin/pipe");
    symlink("loop", root.join("usr/bin/loop")).unwrap();
    let start = Instant::now();
    for path in [
        "/usr/bin/pipe",
        "/usr/bin/loop",
        "/usr/bin",
        "/",
        "",
        "[vdso]",
        "/opt/app/prog/x",
    ] {
        let found = device.look_up(path);
        expect_nothing(&found);
        assert_eq!(found.found, Source::Missing, "{path}");
    }
    assert!(start.elapsed() < Duration::from_secs(5));
}
