//! Running commands. `run` drives one command, `whole` collects its output into one answer, and
//! `stream` sends the output as it arrives.

mod ask;
mod budget;
mod run;
mod stream;
mod whole;

pub use ask::CommandStart;
pub use budget::OutputBudget;
pub use run::{CommandEvent, RunningCommand, lost};
pub use stream::stream;
pub use whole::{OutputHead, collect, whole};
