use std::os::unix::fs::PermissionsExt as _;

use domain::audit::Origin;

use super::*;
use crate::operation::By;
use crate::operation::issue_token::{TokenRequest, issue_token, revoke_token};
use crate::store::testing::on_both;

fn by() -> By {
    By { now: Timestamp::from_millis(1_000_000), origin: Origin::system("test") }
}

fn request() -> TokenRequest {
    TokenRequest {
        name: "ci".to_owned(),
        roles: vec![Role::Author],
        scopes: Vec::new(),
        expires_at: Some(Timestamp::from_millis(2_000_000)),
    }
}

#[test]
fn a_token_that_is_wrong_expired_or_revoked_finds_nobody() {
    on_both(|bench| async move {
        let store = &bench.store;
        let issued = issue_token(store, &by(), &request()).await.unwrap();
        let at = |millis, token: &str| {
            let token = token.to_owned();
            async move { authenticate(store, Timestamp::from_millis(millis), &token).await.unwrap() }
        };
        let bad = [
            "",
            "pat_",
            "pat__",
            &issued.token[4..],
            &format!("{}x", issued.token),
            &format!("pat_{}_", issued.id),
        ];
        for token in bad {
            assert_eq!(at(1_000_000, token).await, None, "{token}");
        }
        assert_eq!(at(1_999_999, &issued.token).await.unwrap().roles, [Role::Author]);
        assert_eq!(at(2_000_000, &issued.token).await, None);
        revoke_token(store, &by(), &issued.id).await.unwrap();
        assert_eq!(at(1_000_000, &issued.token).await, None);
        assert!(revoke_token(store, &by(), &issued.id).await.is_err(), "twice");
    });
}

#[test]
fn a_token_without_a_role_or_with_a_bad_name_is_not_made() {
    on_both(|bench| async move {
        for (name, roles) in [("", vec![Role::Admin]), (&*"x".repeat(65), vec![Role::Admin]), ("a", vec![])] {
            let request = TokenRequest { name: name.to_owned(), roles, ..request() };
            assert!(issue_token(&bench.store, &by(), &request).await.is_err());
        }
    });
}

#[test]
fn the_admin_token_is_made_once_and_only_its_owner_reads_the_file() {
    on_both(|bench| async move {
        let data = &*bench.folder;
        let token = first_start::admin_token(&bench.store, &by(), data).await.unwrap();
        assert_eq!(first_start::admin_token(&bench.store, &by(), data).await.unwrap(), token);
        let file = data.join(first_start::FILE_NAME);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let principal = authenticate(&bench.store, by().now, &token).await.unwrap().unwrap();
        assert!(Action::ALL.into_iter().all(|action| principal.may(action)));
        assert!(principal.has(Scope::ApproveUnattended));
        std::fs::write(&file, "pat_gone_away").unwrap();
        let next = first_start::admin_token(&bench.store, &by(), data).await.unwrap();
        assert!(authenticate(&bench.store, by().now, &next).await.unwrap().is_some());
    });
}
