mod approving;
mod joining;
mod listing;
mod pinning;
mod pushing;
