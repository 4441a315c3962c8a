//! The house's order, kept by a machine.

mod generated;
