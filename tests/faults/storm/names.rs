//! The storage's name, which a storm can lose: the sidecars find it by a resolver of the test's own before
//! that of the C library, which fails as one does whose servers do not answer.

use std::path::PathBuf;
use std::process::Command;

use crate::faults::process::Environment;

/// What nobody else resolves.
pub(super) const NAME: &str = "storage.invalid";

/// The resolver, and whether it answers.
pub(super) struct Names {
    folder: tempfile::TempDir,
}

impl Names {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/storm/names.c");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut build = Command::new(compiler);
        build.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]);
        build.arg(folder.path().join("names.so")).args([source, "-ldl"]);
        assert!(build.status().unwrap().success(), "the resolver cannot be built");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// For the environment of a sidecar.
    pub(super) fn environment(&self) -> Environment {
        let text = |name| self.path(name).display().to_string();
        vec![
            ("LD_PRELOAD", text("names.so")),
            ("STORM_NAME", NAME.to_owned()),
            ("STORM_NAME_LOST", text("lost")),
            ("STORM_NAME_REFUSED", text("refused")),
            // A proxy would resolve it elsewhere.
            ("NO_PROXY", NAME.to_owned()),
        ]
    }

    pub(super) fn lose(&self) {
        std::fs::write(self.path("lost"), "").unwrap();
    }

    pub(super) fn find_again(&self) {
        match std::fs::remove_file(self.path("lost")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.unwrap(),
        }
    }

    /// How often the name was asked for in vain.
    pub(super) fn refused(&self) -> u64 {
        std::fs::metadata(self.path("refused")).map_or(0, |file| file.len())
    }
}
