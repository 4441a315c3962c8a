//! Tests of the whole module.

mod access;
mod documents;
mod effects;
mod merging;
mod mistakes;
mod sections;
mod telemetry;

use std::ffi::OsString;
use std::path::PathBuf;

use super::*;

/// Sources that touch nothing of the machine: a home, a name, and files that contain their own path.
pub(super) fn sources(file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Sources {
    let text = |text: &&str| OsString::from(*text);
    let home = [("HOME", "/home/keeper")];
    Sources {
        file: Some(FileText { path: PathBuf::from("leasehold.toml"), text: file.to_owned() }),
        variables: home
            .iter()
            .chain(variables)
            .map(|(name, value)| (text(name), text(value)))
            .collect(),
        flags: flags.iter().map(|flag| Flag::set(flag).unwrap()).collect(),
        host_name: Some("keeper-1".to_owned()),
        read_file: |path| match path.to_str() {
            Some(path) if path.contains("missing") => Err(std::io::ErrorKind::NotFound.into()),
            Some(path) if path.contains("empty") => Ok(b" \n".to_vec()),
            Some(path) => Ok(format!("{path}\n").into_bytes()),
            None => Ok(Vec::new()),
        },
    }
}

pub(super) fn load(file: &str) -> Config {
    Config::load(&sources(file, &[], &[])).unwrap_or_else(|error| panic!("{file}\n{error}"))
}

pub(super) fn mistakes(sources: &Sources) -> Vec<String> {
    let error = Config::load(sources).expect_err("there are mistakes");
    error.mistakes.iter().map(ToString::to_string).collect()
}
