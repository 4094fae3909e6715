//! The verbs, each from what was asked to what is shown.

pub(crate) mod blocks;
pub(crate) mod check;
pub(crate) mod export;
pub(crate) mod files;
pub(crate) mod modules;
pub(crate) mod mtrace;
pub(crate) mod reading;
pub(crate) mod recv;
pub(crate) mod run;
pub(crate) mod split;
pub(crate) mod waiting;
