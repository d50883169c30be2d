//! Running commands. `run` drives one command, `whole` collects its output into one answer, and
//! `stream` sends the output as it arrives.

mod ask;
mod budget;
mod run;
mod stream;
mod whole;

pub use ask::Start;
pub use budget::Budget;
pub use run::{Run, Step, lost};
pub use stream::stream;
pub use whole::{Kept, collect, whole};
