//! What a whole analysis says of traces made byte by byte.

mod bypass;
mod cycles;
mod damage;
mod dump;
mod ends;
mod exported;
mod forks;
pub(crate) mod made;
mod packing;
mod reallocs;
mod repair;
mod rules;
mod stacks;
mod streams;
mod twin;
