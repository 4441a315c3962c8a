//! Tests of the whole room.
