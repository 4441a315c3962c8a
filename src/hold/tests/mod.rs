mod client;
mod drive;
mod table;
mod world;
