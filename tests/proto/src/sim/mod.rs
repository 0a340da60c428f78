// SPDX-License-Identifier: GPL-2.0
//! Two hosts, a cable that misbehaves, virtual time, and an oracle. A seed decides everything.

pub mod config;
pub mod env;
pub mod host;
pub mod lane;
pub mod pair;
pub mod plan;
pub mod rng;
pub mod trace;
pub mod watch;
pub mod world;

pub use config::{Config, Mode};
pub use world::{run, Report};
