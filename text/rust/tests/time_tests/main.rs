// SPDX-License-Identifier: Apache-2.0
//! Tests that compare times: they have the machine for themselves.

#[path = "../golden_files/mod.rs"]
mod golden_files;
#[path = "../grammar_model/mod.rs"]
mod grammar_model;

mod cuts;
mod encode;
mod grammar_bounds;
