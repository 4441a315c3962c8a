//! Stories of one machine, a subject a file: `rig.rs` has the machine, with the queue above it, without which
//! it serves no caller, and moves it by hand; `table.rs` is the store beside it, `told.rs` what was told.

mod acquiring;
mod answers;
mod bounds;
mod breaking;
mod comebacks;
mod crossing;
mod deciding;
mod ending;
mod fairness;
mod forging;
mod hand_over;
mod handed_on;
mod leaving;
mod moves;
mod noticing;
mod overruled;
mod overruling;
mod proven;
mod proving;
mod recording;
mod remembering;
mod renewing;
mod reserving;
mod resuming;
mod returning;
mod rig;
mod saving;
mod shared;
mod showing;
mod suspecting;
mod table;
mod told;
mod waiting;
