//! Ids to text, piece by piece: the library's decoder as a chain of stages that keep a bounded state.

mod byte_level;
mod plan;
mod stages;
mod stream;
mod utf8;

pub use plan::Plan;
pub use stream::DecodeStream;
