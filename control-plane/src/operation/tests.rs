mod approving;
mod guarding;
mod joining;
mod listing;
mod pinning;
mod pushing;
mod rewinding;
mod trying;
