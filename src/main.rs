//! The `dueq` program; all of it is in the library.

use mimalloc::MiMalloc;
use std::process::ExitCode;

/// Gives memory back to the system: after a burst of connections and large bodies the system's own keeps what it took.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    dueq::cli::main()
}
