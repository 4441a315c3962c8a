//! Compiles `proto/` without a system protoc: the server's stubs and the descriptor for reflection, which
//! `src/grpc` includes, and the Rust client's stubs, which `tests/tidy` compares with the checked-in ones.

use std::error::Error;
use std::path::{Path, PathBuf};

use prost::Message as _;

/// The services; what they import comes with them.
const SERVICES: [&str; 2] =
    ["leasehold/v1/lease_service.proto", "leasehold/v1/schedule_service.proto"];

/// A message, and those of its fields that `Debug` may show.
type Shown = (&'static str, &'static [&'static str]);

/// Messages that carry a lease id, a resume token or a checkpoint: their `Debug` is made here and hides it
/// (S20).
const SECRET: [Shown; 9] = [
    (
        "Grant",
        &[
            "lock_path",
            "host_id",
            "fencing_token",
            "validity",
            "acquired_at",
            "expires_at",
            "attempt",
            "permit",
        ],
    ),
    ("Resume", &["told_valid_until"]),
    ("CompleteRunRequest", &["outcome", "detail"]),
    ("ReleaseLeaseRequest", &["outcome"]),
    ("ExtendLeaseRequest", &["max_hold"]),
    ("ReportProgressRequest", &[]),
    ("GetHoldRequest", &[]),
    ("SaveCheckpointRequest", &[]),
    ("Checkpoint", &["version", "fencing_token", "saved_at"]),
];

/// The file that is made of the messages and services.
const STUBS: &str = "leasehold.v1.rs";

/// Set to write the client's stubs where they are checked in: `make proto` does. Nothing that needs the
/// client could do that: with a new field its code, some of it generated too, does not fit the old stubs.
const WRITE: &str = "LEASEHOLD_WRITE_GENERATED";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={WRITE}");
    // Half a MiB of an idle sidecar's memory would be the table of its relocations otherwise. glibc knows it
    // since 2.36.
    let target = |part| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    if (target("OS").as_str(), target("ENV").as_str()) == ("linux", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    let client = out.join("client");
    std::fs::create_dir_all(&client)?;

    let descriptors = protox::compile(SERVICES, ["proto"])?;
    std::fs::write(out.join("leasehold_descriptor.bin"), descriptors.encode_to_vec())?;
    builder(&out)
        .build_client(false)
        .codec_path("crate::grpc::codec::Codec")
        .compile_fds(descriptors.clone())?;
    append_debug(&out)?;
    // The client's own tests run against a server that they write themselves.
    builder(&client)
        .server_mod_attribute("leasehold.v1", "#[cfg(test)]")
        .compile_fds(descriptors)?;
    append_debug(&client)?;
    if std::env::var_os(WRITE).is_some() {
        std::fs::copy(client.join(STUBS), Path::new("clients/rust/gen").join(STUBS))?;
    }
    Ok(())
}

fn builder(out: &Path) -> tonic_prost_build::Builder {
    tonic_prost_build::configure()
        .out_dir(out)
        .emit_rerun_if_changed(false)
        .skip_debug(SECRET.map(|(message, _)| format!("leasehold.v1.{message}")))
        .btree_map(".")
}

fn append_debug(out: &Path) -> Result<(), Box<dyn Error>> {
    let path = out.join(STUBS);
    let mut code = std::fs::read_to_string(&path)?;
    for (message, shown) in SECRET {
        let fields = shown
            .iter()
            .map(|field| format!(".field({field:?}, &self.{field})"))
            .collect::<String>();
        code.push_str(&format!(
            "impl ::core::fmt::Debug for {message} {{\n    \
             fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{\n        \
             f.debug_struct({message:?}){fields}.finish_non_exhaustive()\n    }}\n}}\n"
        ));
    }
    std::fs::write(path, code)?;
    Ok(())
}
