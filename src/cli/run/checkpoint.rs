//! The file in which the command of `run` finds the lock's checkpoint, and leaves the next one (S23 to S26).

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use leasehold_client::{Checkpoint, Client};

use super::super::exit::UsageError;
use super::super::retry::Patience;

/// The greatest size of a checkpoint in bytes.
pub(in crate::cli) const LONGEST: usize = 2_048;

/// The file, and what stood there when the command started.
#[derive(Debug)]
pub(in crate::cli) struct CheckpointFile {
    path: PathBuf,
    before: Option<Vec<u8>>,
}

impl CheckpointFile {
    /// The file at `path`, which the command may reach from another directory.
    ///
    /// # Errors
    /// When there is no such path.
    pub(in crate::cli) fn at(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)
            .map_err(|error| UsageError(format!("--checkpoint {}: {error}", path.display())))?;
        Ok(Self { path, before: None })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the checkpoint as the last holder left it. Without one there is no file: a cursor that stands
    /// there is not the lock's.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&mut self, checkpoint: Option<Checkpoint>) -> anyhow::Result<()> {
        self.before = checkpoint.map(|checkpoint| checkpoint.value);
        let written = match &self.before {
            Some(value) => std::fs::write(&self.path, value),
            None => match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            },
        };
        written.map_err(|error| {
            let path = self.path.display();
            UsageError(format!("--checkpoint: cannot write {path}: {error}")).into()
        })
    }

    /// What the command has left to be saved; `None` if nothing has changed, or there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or is too large.
    pub(super) fn changed(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let value = read(&self.path)?;
        Ok(value.filter(|value| self.before.as_ref() != Some(value)))
    }
}

/// A checkpoint from a file; `None` if there is no such file.
///
/// # Errors
/// When the file cannot be read, or is too large.
pub(in crate::cli) fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file,
    };
    let mut value = Vec::new();
    file.and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut value))
        .with_context(|| format!("cannot read {}", path.display()))?;
    check_size(&value).with_context(|| path.display().to_string())?;
    Ok(Some(value))
}

/// Refuses what is too large for a checkpoint.
pub(in crate::cli) fn check_size(value: &[u8]) -> Result<(), UsageError> {
    if value.len() <= LONGEST {
        return Ok(());
    }
    Err(UsageError(format!(
        "it has more than {LONGEST} bytes, the most that a checkpoint may have: store the data elsewhere, and save \
         its address"
    )))
}

/// Checks that the sidecar keeps checkpoints, before anything is run that relies on it.
///
/// # Errors
/// When it does not, or cannot be asked.
pub(in crate::cli) async fn check_kept(
    client: &Client,
    patience: &mut Patience,
) -> anyhow::Result<()> {
    let info = loop {
        match client.get_server_info().await {
            Ok(info) => break info,
            Err(error) => patience.after(error.into()).await?,
        }
    };
    if info.limits.checkpoint_bytes > 0 {
        return Ok(());
    }
    let layout = info.layout;
    let problem = format!("--checkpoint: locks of the layout {layout} have no checkpoints");
    Err(UsageError(problem).into())
}
