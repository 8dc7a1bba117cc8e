//! The Actions engine against small workflow files, with real git and real shells.

mod control;
mod features;
mod stand_ins;
mod world;
