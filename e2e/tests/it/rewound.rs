//! A control plane whose database was restored from an older copy.

use e2e::eventually;
use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;
const CHANGED: &str =
    r#"{"name":"hello","description":"Say hello, loudly.","inputSchema":{"type":"object"}}"#;

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("pintle.db") {
            std::fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn an_approval_that_a_restored_database_lost_is_noticed_listed_and_adopted_again() {
    let mut fleet = Fleet::start(2).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;

    // A copy, an approval after it, and the copy put back.
    let (data, backup) = (fleet.data().join("server"), fleet.folder().join("backup"));
    fleet.kill_server().await.unwrap();
    copy(&data, &backup);
    fleet.start_server().await.unwrap();
    team.list(&[CHANGED]).unwrap();
    fleet.refused("team.hello", "drifted").await;
    let line = eventually("the change", || async {
        let open = fleet.cli_output(&["plugin", "approve-tools", "greeter", "--json"]).await?;
        let open: Value = serde_json::from_slice(&open.stdout)?;
        let line = open["approve_with"].as_str().unwrap_or_default().to_owned();
        anyhow::ensure!(!line.is_empty(), "{open}");
        Ok(line)
    })
    .await;
    // The line names the data folder too, as this test's own commands do.
    let words: Vec<&str> = line.split(' ').skip_while(|word| *word != "plugin").collect();
    fleet.cli(&words).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.kill_server().await.unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("pintle.db-") && name != "pintle.db-migrate" {
            std::fs::remove_file(path).unwrap();
        }
    }
    copy(&backup, &data);
    fleet.start_server().await.unwrap();

    // Nothing goes back in silence: a new epoch, an event, and what only nodes hold is listed.
    let doctor = eventually("the orphan", || async {
        let doctor = fleet.cli_output(&["doctor", "--json"]).await?;
        let doctor: Value = serde_json::from_slice(&doctor.stdout)?;
        if doctor["orphans"].as_array().is_some_and(|orphans| !orphans.is_empty()) {
            return Ok(doctor);
        }
        anyhow::bail!("{doctor}")
    })
    .await;
    let orphans = doctor["orphans"].as_array().unwrap();
    assert_eq!(orphans.len(), 1, "{doctor}");
    assert_eq!((&orphans[0]["tool"], &orphans[0]["function"]), (&json!("team"), &json!("hello")));
    assert_eq!(doctor["status"]["fleet"]["epoch"], 2);
    let audit = fleet.get("/audit?name=fleet.store.rewound").await.unwrap();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
    fleet.refused("team.hello", "drifted").await;

    let id = orphans[0]["id"].as_str().unwrap();
    let refused = fleet.cli_output(&["doctor", "--adopt", id]).await.unwrap();
    assert_eq!(refused.status.code(), Some(3), "a person decides");
    fleet.cli(&["doctor", "--adopt", id, "--yes"]).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let doctor = fleet.cli_json(&["doctor"]).await.unwrap();
    assert_eq!(doctor["orphans"], json!([]));
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&[HELLO.to_owned(), CHANGED.to_owned()].into()).unwrap();
}
