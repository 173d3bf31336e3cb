//! Which world a run happens in.

use clap::ValueEnum;

use crate::rng::Source;
use crate::world::{Outcome, RunOptions};

/// A world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// The core's machines in an event loop of our own.
    #[default]
    Core,
    /// The real runtime over a simulated network and the model disk.
    Shell,
}

impl Tier {
    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Shell => "shell",
        }
    }

    /// Whether this build has it.
    ///
    /// # Errors
    /// How to build one that has.
    pub fn check(self) -> Result<(), String> {
        if self == Self::Shell && !cfg!(madsim) {
            return Err("the shell world is not in this build; build one that has it with \
                        RUSTFLAGS=\"--cfg madsim\" cargo build --release -p rondo-sim \
                        --target-dir target/madsim"
                .to_owned());
        }
        Ok(())
    }

    /// Runs a whole run in it; in the core world where the build has no other.
    pub fn run(self, source: &Source, options: RunOptions) -> Outcome {
        match self {
            #[cfg(madsim)]
            Self::Shell => crate::shell::run(source, options),
            #[cfg(not(madsim))]
            Self::Shell => crate::world::run(source, options),
            Self::Core => crate::world::run(source, options),
        }
    }
}
