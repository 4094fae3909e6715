//! From module and file address to functions, files and lines.
//!
//! Knows addresses and modules, nothing of events. Opens only files whose build id fits the module's, or that
//! the user named.
