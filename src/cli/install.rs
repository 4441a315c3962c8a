//! `leasehold install`: this program, copied to where another container finds it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::exit::{Exit, MisconfiguredError};
use super::output;

/// Copies this program into a folder, as `leasehold`. For an init container that brings it into the container
/// of another image, through a volume that both mount: the image of Leasehold has neither a shell nor cp.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder. It must exist.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Everybody may read and execute it: the application runs as another user.
const MODE: u32 = 0o555;

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let target = args.folder.join("leasehold");
    copy(&std::env::current_exe()?, &args.folder, &target).map_err(|error| {
        let target = target.display();
        let problem = format!("cannot copy the program to {target}: {error}");
        MisconfiguredError(problem)
    })?;
    output::print(&target.display().to_string())?;
    Ok(Exit::Success)
}

/// Renamed into place, so that there is never half a program, and one that is there already may be running.
fn copy(program: &Path, folder: &Path, target: &Path) -> std::io::Result<()> {
    let part = folder.join(format!(".leasehold.{}", std::process::id()));
    let copied = fs::copy(program, &part)
        .and_then(|_bytes| fs::set_permissions(&part, Permissions::from_mode(MODE)))
        .and_then(|()| fs::rename(&part, target));
    if copied.is_err() {
        // Nothing to say of it beside the failure itself.
        let _removed = fs::remove_file(&part);
    }
    copied
}
