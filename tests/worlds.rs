//! What computes: the simulators and worlds, each from seeds; the model; the timetable and the fuzzer. One
//! program, so that the library is linked once. Each folder says what it plays and what it leaves out.

mod fuzz;
mod kit;
mod model;
mod pools;
mod schedule;
mod shares;
mod simulation;
mod timetable;
mod world;
