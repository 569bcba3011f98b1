//! Whether anybody waits for a message of the control plane: then the link is watched closely. Pure.

use domain::guard::Table;
use domain::refusal::Code;

/// Whether something is refused that the control plane can change by itself or after a person approved
/// it: then a dead link costs more than a message.
pub(crate) fn waits_for_a_person(table: &Table) -> bool {
    let approvable = |code| {
        matches!(
            code,
            Code::NoPluginSet
                | Code::SetStale
                | Code::Drifted
                | Code::NewFunction
                | Code::Unlisted
                | Code::OriginMoved
                | Code::NoSnapshot
        )
    };
    let refused = table.functions().iter().filter_map(|slot| slot.refusal());
    table.closed().is_some_and(|refusal| approvable(refusal.code))
        || refused.into_iter().any(|r| approvable(r.code))
}
