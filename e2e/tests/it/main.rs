//! The product as people use it: real processes, real tool servers, real clients.

mod arrows;
