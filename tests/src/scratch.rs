//! Folders that go away with the test that made them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// An empty folder below the target folder, removed when dropped unless the test fails.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder; `name` is there for people who look at what a failed test left.
    ///
    /// # Panics
    ///
    /// Where the folder cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::below(&target().join("tmp"), name)
    }

    /// A new folder below `parent`, for tests that need a certain file system.
    ///
    /// # Panics
    ///
    /// Where the folder cannot be made.
    #[must_use]
    pub fn below(parent: &Path, name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed); // only has to differ
        let path = parent.join(format!("{name}.{}.{number}", process::id()));
        fs::create_dir_all(&path).expect("the folder can be written to");
        Self(path)
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in the folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in the folder and gives its path.
    ///
    /// # Panics
    ///
    /// Where it cannot be written.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, bytes).expect("the folder can be written to");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0); // what is left is in the way of nobody
        }
    }
}

/// The target folder that this program was built into: it lies in `target/PROFILE` or, for tests, in `deps` there.
fn target() -> PathBuf {
    let program = env::current_exe().expect("the program is a file");
    let folders = program
        .ancestors()
        .skip(1)
        .filter(|folder| !folder.ends_with("deps"));
    let target = folders.take(2).last();
    target
        .expect("it lies below the target folder")
        .to_path_buf()
}
