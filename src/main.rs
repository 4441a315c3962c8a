//! The `leasehold` command.

use std::process::ExitCode;

use leasehold::cli;

/// glibc's takes a quarter of the time of a busy sidecar.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line = match cli::parse(std::env::args_os()) {
        Ok(line) => line,
        Err(exit) => return exit,
    };
    // Only the first one counts, and there is none before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return cli::cannot_start(&error),
    };
    let exit = runtime.block_on(cli::run(line));
    // A thread that is blocked, as by a name that nobody resolves, must not keep the process.
    runtime.shutdown_background();
    exit
}
