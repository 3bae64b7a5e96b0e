// SPDX-License-Identifier: Apache-2.0
//! Incremental ids to text: the library's decoder as a chain of stages with bounded state.

mod byte_level;
mod plan;
mod stages;
mod stream;
mod utf8;

pub use plan::Plan;
pub use stream::DecodeStream;
