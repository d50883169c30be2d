//! The archive on real folders, over real sockets, with a store that can be made to fail.

mod bed;
mod hostile;
mod postgres;
mod relay;
mod s3;
mod storing;
mod taking_turns;
