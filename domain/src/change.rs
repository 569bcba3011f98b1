//! Changes: what kind of difference lies between an approved listing and a seen one, and where.
//!
//! Pure functions of canonical forms. Grades order and group what people decide; nothing is ever
//! approved by one, but `notation` where a policy says so. Who may approve is decided elsewhere.

mod differences;
mod grade;
mod schema;

pub use differences::{Difference, MAX_DIFFERENCES, differences, differs_in_digits_only};
pub use grade::{Grade, grade, grade_new, is_notation_only, worst};

#[cfg(test)]
mod tests;
