//! Roles: which may do what, and the sentence that a denial tells.
//!
//! The API asks [`allows`] before each operation; nothing else decides over people's rights.

use std::fmt;

/// What a person or a program may be to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees everything but secrets.
    Viewer,
    /// Assigns versions, makes edges and lets nodes join.
    Operator,
    /// Approves changed listings and moved origins.
    Approver,
    /// Pushes versions.
    Author,
    /// Does all of it, and makes tokens.
    Admin,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Reads edges, nodes, plugins, changes, the catalog and the audit log.
    View,
    /// Pushes a version.
    Push,
    /// Makes an edge.
    CreateEdge,
    /// Sets what the nodes of an edge may do.
    SetPolicy,
    /// Sets what the whole fleet holds to.
    SetFleetPolicy,
    /// Sets what remote tools are reached with.
    SetConnection,
    /// Assigns a version to an edge or takes it away.
    Assign,
    /// Makes, lists and revokes join tokens.
    AdmitNodes,
    /// Evicts, bans and removes nodes, and picks one of several copies.
    ExpelNodes,
    /// Approves and rejects changed listings and moved origins, and lifts blocks.
    Approve,
    /// Stops calls of a function, a tool or a plugin.
    Block,
    /// Makes, lists and revokes API tokens.
    ManageTokens,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Viewer, Self::Operator, Self::Approver, Self::Author, Self::Admin];

    /// Its word in the API and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Author => "author",
            Self::Admin => "admin",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 12] = [
        Self::View,
        Self::Push,
        Self::CreateEdge,
        Self::SetPolicy,
        Self::SetFleetPolicy,
        Self::SetConnection,
        Self::Assign,
        Self::AdmitNodes,
        Self::ExpelNodes,
        Self::Approve,
        Self::Block,
        Self::ManageTokens,
    ];

    /// Its words in a denial, after "may".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::View => "look at the fleet",
            Self::Push => "push versions",
            Self::CreateEdge => "make edges",
            Self::SetPolicy => "set an edge's policy",
            Self::SetFleetPolicy => "set the fleet's policy",
            Self::SetConnection => "set connections",
            Self::Assign => "assign versions",
            Self::AdmitNodes => "let nodes join",
            Self::ExpelNodes => "take nodes out of the fleet",
            Self::Approve => "approve changes",
            Self::Block => "block calls",
            Self::ManageTokens => "make and revoke tokens",
        }
    }
}

/// Whether one role may do it. Every role may look; an admin may do everything.
pub const fn allows(role: Role, action: Action) -> bool {
    match role {
        Role::Admin => true,
        Role::Viewer => matches!(action, Action::View),
        Role::Operator => {
            matches!(
                action,
                Action::View
                    | Action::CreateEdge
                    | Action::SetPolicy
                    | Action::SetConnection
                    | Action::Assign
                    | Action::AdmitNodes
                    | Action::Block
            )
        }
        Role::Approver => matches!(action, Action::View | Action::Approve | Action::Block),
        Role::Author => matches!(action, Action::View | Action::Push),
    }
}

/// The sentence of a denial: who may not do what, and which role would do.
pub fn denial(roles: &[Role], action: Action) -> String {
    let would_do: Vec<&str> =
        Role::ALL.into_iter().filter(|role| allows(*role, action)).map(Role::as_str).collect();
    let has = match roles {
        [] => "no role".to_owned(),
        [one] => format!("the role {one}"),
        many => {
            format!("the roles {}", many.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", "))
        }
    };
    format!(
        "this token has {has}, which may not {}; it takes the role {}",
        action.as_str(),
        would_do.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_exactly_what_its_row_says() {
        let rows: [(Role, &[Action]); 4] = [
            (Role::Viewer, &[Action::View]),
            (
                Role::Operator,
                &[
                    Action::View,
                    Action::CreateEdge,
                    Action::SetPolicy,
                    Action::SetConnection,
                    Action::Assign,
                    Action::AdmitNodes,
                    Action::Block,
                ],
            ),
            (Role::Approver, &[Action::View, Action::Approve, Action::Block]),
            (Role::Author, &[Action::View, Action::Push]),
        ];
        for (role, may) in rows {
            for action in Action::ALL {
                assert_eq!(allows(role, action), may.contains(&action), "{role} {action:?}");
            }
        }
        assert!(Action::ALL.into_iter().all(|action| allows(Role::Admin, action)));
    }

    #[test]
    fn a_denial_says_which_role_would_do() {
        assert_eq!(
            denial(&[Role::Viewer], Action::Approve),
            "this token has the role viewer, which may not approve changes; it takes the role approver or admin"
        );
        assert!(denial(&[], Action::View).starts_with("this token has no role, which may not look"));
    }

    #[test]
    fn a_role_is_read_back_as_it_was_written() {
        assert!(Role::ALL.into_iter().all(|role| Role::parse(role.as_str()) == Some(role)));
        assert_eq!(Role::parse("Admin"), None);
    }
}
